package campaign

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/lease"
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

// A leader's host is checked concurrently with renewals, so a slow check does not delay
// them. Once checks have failed for a TTL, the lease is offered, and the run ends as with
// an operator's hand-over.
func TestIneligibleLeaderHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		renewals := 0
		w.renew = func(_ context.Context, l lease.Lease) (lease.Lease, error) {
			renewals++
			l.HandOver = l.Offered
			return l, nil
		}
		set := w.settings()
		set.Checked = true
		checks := 0
		set.Check = func(ctx context.Context, limit time.Duration) error {
			if checks++; checks == 1 {
				return nil
			}
			select {
			case <-time.After(limit / 2):
				return errors.New("unfit")
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		r := Run(t.Context(), set, w, w, w)
		// Checked at 10, failed at 15; checked at 25 and 40, failed at 30 and 45.
		if took := time.Since(w.start); r.Outcome != candidate.Unfit || !r.HandedOver || took != 50*time.Second || renewals != 5 || checks != 4 {
			t.Error(r.Outcome, r.HandedOver, took, renewals, checks)
		}
	})
}
