package campaign

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
)

// A check may use all of its time.
func TestSlowCheckIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.command = lasts(time.Second, 0)
		set := w.settings()
		set.Checked = true
		set.Check = func(ctx context.Context, limit time.Duration) error {
			select {
			case <-time.After(limit):
			case <-ctx.Done():
			}
			return ctx.Err()
		}
		if r := Run(t.Context(), set, w, w, w); r.Outcome != candidate.Exited {
			t.Error(r.Outcome)
		}
	})
}

// A run that is ordered to stop during a check ends only after the check.
func TestCheckIsCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		signals := make(chan Received, 1)
		set := w.settings()
		set.Checked, set.Signals = true, signals
		ended := false
		set.Check = func(ctx context.Context, _ time.Duration) error {
			<-ctx.Done()
			time.Sleep(time.Second) // it is being killed
			ended = true
			return ctx.Err()
		}
		go func() { time.Sleep(time.Second); signals <- Received{Signal: 15, Order: true} }()
		r := Run(t.Context(), set, w, w, w)
		if r.Outcome != candidate.Ordered || !ended {
			t.Error(r.Outcome, ended)
		}
	})
}
