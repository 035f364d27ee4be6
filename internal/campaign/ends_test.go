package campaign

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// If the release finds that the lease is lost, it is not repeated, and the outcome stays:
// the command ran under its own lease.
func TestReleaseOfALostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.command = lasts(time.Second, 3)
		w.release = func(context.Context) error { return fmt.Errorf("test: %w", lease.ErrLost) }
		r := Run(t.Context(), w.settings(), w, w, w)
		w.expect("0.0 acquire", "0.0 start", "1.0 gone", "1.0 release")
		if r.Outcome != candidate.Exited || r.Exit.Code != 3 {
			t.Errorf("%s, exit %+v", r.Outcome, r.Exit)
		}
	})
}

// A standby that ends may have received the wake-up that another waits for: it passes one
// on before it ends, and does not wait long for that.
func TestStandbyPassesOn(t *testing.T) {
	for _, test := range []struct {
		name string
		pass func(context.Context) error
		end  time.Duration
	}{
		{"in time", func(context.Context) error { time.Sleep(200 * time.Millisecond); return nil }, 3200 * time.Millisecond},
		{"the store hangs", silent, 3500 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.acquire = func(context.Context, lease.Request) (lease.Lease, error) {
					return lease.Lease{}, &lease.HeldError{Condition: lease.Condition{Why: lease.Held, Remaining: 20 * time.Second}}
				}
				w.wait, w.pass = silent, test.pass
				signals := make(chan Received, 1)
				time.AfterFunc(3*time.Second, func() { signals <- Received{Signal: 15, Order: true} })
				set := w.settings()
				set.Wait, set.Signals = candidate.Forever, signals
				r := Run(t.Context(), set, w, w, w)
				w.expect("0.0 acquire", "3.0 pass")
				if took := time.Since(w.start); r.Outcome != candidate.Ordered || took != test.end {
					t.Errorf("%s after %s, want ordered after %s", r.Outcome, took, test.end)
				}
			})
		})
	}
}

// The rest of a tree that is being stopped gets the signal, too.
func TestRestIsSignalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.left = 2 * time.Second
		signals := make(chan Received, 1)
		set := w.settings()
		set.Signals = signals
		go func() { time.Sleep(time.Second); signals <- Received{Signal: 15, Order: true} }()
		Run(t.Context(), set, w, w, w)
		w.expect("0.0 acquire", "0.0 start", "1.0 signal 15", "1.0 signal 15 to the rest", "3.0 gone", "3.0 release")
	})
}

// With --leftovers leave, leftovers live on without a guard and without the lease.
func TestLeftoversAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.left, w.command = 2*time.Second, lasts(time.Second, 0)
		set := w.settings()
		set.Leftovers = candidate.LeftoversLeave
		r := Run(t.Context(), set, w, w, w)
		if w.expect("0.0 acquire", "0.0 start", "1.0 leave", "1.0 release"); r.Outcome != candidate.Detached {
			t.Error(r.Outcome)
		}
		time.Sleep(2 * time.Second)
	})
}

// At a release, listening and the check of the host are ended first.
func TestReleaseEndsWhatIsBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex
		var ended []string
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, fmt.Sprintf("%s %.0f", what, time.Since(w.start).Seconds()))
		}
		w.listen = func(ctx context.Context) error { defer note("listen"); return silent(ctx) }
		w.command = lasts(11*time.Second, 0)
		w.release = func(context.Context) error { time.Sleep(time.Second); return nil }
		set := w.settings()
		set.Checked = true
		checks := 0
		set.Check = func(ctx context.Context, _ time.Duration) error {
			if checks++; checks > 1 {
				defer note("check")
				return silent(ctx)
			}
			return nil
		}
		Run(t.Context(), set, w, w, w)
		synctest.Wait() // what was asked beside the release
		if slices.Sort(ended); !slices.Equal(ended, []string{"check 11", "listen 11"}) {
			t.Errorf("ended %q, want both at 11", ended)
		}
	})
}
