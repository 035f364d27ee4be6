package run

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/observe"
)

// All hooks that remain at the end of the run together get the time of one.
func TestHooksAreBoundedInAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hooks{log: slog.New(slog.DiscardHandler), cut: make(chan struct{}), programs: map[string]program{observe.HookSkip: {}}}
		ran := 0
		h.Hooks = observe.NewHooks(func(observe.Hook) { // like call, with a program that hangs
			select {
			case <-h.cut:
				return
			default:
			}
			ran++
			select {
			case <-h.cut:
			case <-time.After(hookLimit - time.Second):
			}
		}, nil)
		for range 16 {
			h.Observe(campaign.Transition{To: elect.State{Phase: elect.Done, Outcome: elect.Denied}})
		}
		began := time.Now()
		h.finish(nil)
		if took := time.Since(began); took != hookLimit || ran != 2 {
			t.Fatalf("after the end %d hooks ran for %s", ran, took)
		}
		h.call(observe.Hook{Event: observe.HookSkip}) // starts nothing: there is no runner
	})
}
