package run

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// All hooks that remain at the end of the run together get the time of one.
func TestHooksAreBoundedInAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := 0
		h := hanging(io.Discard, func(cut <-chan struct{}) {
			ran++
			select {
			case <-cut:
			case <-time.After(hookLimit - time.Second):
			}
		})
		for range 16 {
			h.Observe(skipped)
		}
		began := time.Now()
		h.Finish(nil)
		if took := time.Since(began); took != hookLimit || ran != 2 {
			t.Fatalf("after the end %d hooks ran for %s", ran, took)
		}
	})
}

// While a hook hangs, 16 events wait. Each further one is left out, with a warning if it has a
// hook, and so are those that still wait when leaderrun is told to end.
func TestLeftOutHooksCauseWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		ran := 0
		h := hanging(&log, func(cut <-chan struct{}) { ran++; <-cut })
		h.Observe(skipped)
		synctest.Wait() // it runs
		for range 16 + 3 {
			h.Observe(skipped)
		}
		h.Observe(campaign.Transition{From: elect.State{Phase: candidate.Leading}, To: elect.State{Phase: candidate.Stopping, Outcome: candidate.Lost}}) // has no hook
		if n := strings.Count(log.String(), "--on-skip was not run, because 16 events wait"); n != 3 {
			t.Errorf("%d warnings, want 3:\n%s", n, log.String())
		}
		orders := make(chan campaign.Received, 1)
		orders <- campaign.Received{Signal: 15, Order: true}
		h.Finish(orders)
		if n := strings.Count(log.String(), "was not run"); ran != 1 || n != 3+16 {
			t.Errorf("%d ran, %d warnings, want 1 and 19:\n%s", ran, n, log.String())
		}
	})
}

// skipped is the end of a run that has HookSkip.
var skipped = campaign.Transition{To: elect.State{Phase: candidate.Done, Outcome: candidate.Denied}}

// hanging returns hooks with --on-skip only, which calls run and succeeds.
func hanging(log io.Writer, run func(cut <-chan struct{})) *Hooks {
	return NewHooks(settings.Config{OnSkip: []string{os.Args[0]}}, slog.New(slog.NewTextHandler(log, nil)),
		func(_ string, _, _ []string, _ time.Duration, cut <-chan struct{}) error { run(cut); return nil }, nil)
}
