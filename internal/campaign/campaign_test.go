package campaign

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
)

func TestRunRenewsAndReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.command = lasts(25*time.Second, 3)
		r := Run(t.Context(), w.settings(), w, w, w)
		w.expect("0.0 acquire", "0.0 start", "10.0 renew", "20.0 renew", "25.0 gone", "25.0 release")
		if r.Outcome != candidate.Exited || r.Exit.Code != 3 {
			t.Errorf("%s, exit %+v", r.Outcome, r.Exit)
		}
		if want := (lease.Result{Ran: true, Exit: 3, Outcome: "exited"}); w.released != want {
			t.Errorf("filed %+v", w.released)
		}
	})
}

func TestBlackHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.stubborn = true
		w.renew = func(ctx context.Context, l lease.Lease) (lease.Lease, error) { return l, silent(ctx) }
		w.release = silent
		r := Run(t.Context(), w.settings(), w, w, w)
		// Attempts of 2 s, pauses of 0.1 s; stop-by 21.195 s, kill-by 28.695 s.
		w.expect("0.0 acquire", "0.0 start", "10.0 renew", "12.0 renew", "14.1 renew", "16.2 renew", "18.3 renew", "20.4 renew",
			"21.2 signal 15", "21.3 renew", "23.4 renew", "25.5 renew", "27.6 renew", "28.7 kill", "28.7 gone", "28.7 release", "31.2 release")
		if r.Outcome != candidate.Expired || w.released != (lease.Result{Ran: true, Exit: lease.ExitVoid, Outcome: "expired"}) {
			t.Errorf("%s, filed %+v", r.Outcome, w.released)
		}
	})
}

// When the wall clock is set, the machine may have stood still: the holder renews, to
// find out whether it still leads.
func TestClockSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.command = lasts(15*time.Second, 0)
		set, clock := w.settings(), make(chan struct{})
		set.ClockSet = clock
		time.AfterFunc(3*time.Second, func() { clock <- struct{}{} })
		Run(t.Context(), set, w, w, w)
		w.expect("0.0 acquire", "0.0 start", "3.0 renew", "13.0 renew", "15.0 gone", "15.0 release")
	})
}

// A holder that is called renews at once, and keeps listening until it releases.
func TestCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.command = lasts(8*time.Second, 0)
		calls := 0
		w.listen = func(ctx context.Context) error {
			time.Sleep(time.Millisecond) // after the renewal of the same moment
			w.note("listen")
			if calls++; calls > 1 {
				return silent(ctx)
			}
			time.Sleep(2 * time.Second)
			return nil
		}
		Run(t.Context(), w.settings(), w, w, w)
		w.expect("0.0 acquire", "0.0 start", "0.1 listen", "2.1 renew", "2.1 listen", "8.0 gone", "8.0 release")
	})
}

// A proxy may drop the connection without notice, so a holder replaces it regularly. That
// is no reason to renew.
func TestListensAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.command = lasts(65*time.Second, 0)
		began, listening := []time.Duration{}, 0
		w.listen = func(ctx context.Context) error {
			began = append(began, time.Since(w.start))
			if listening++; listening > 1 {
				t.Error("it listens twice")
			}
			<-ctx.Done()
			listening--
			return &lease.StoreError{Op: "listen", Err: ctx.Err()}
		}
		Run(t.Context(), w.settings(), w, w, w)
		renewals := 0
		for _, line := range w.log {
			if strings.HasSuffix(line, " renew") {
				renewals++
			}
		}
		if want := 100 * time.Millisecond; len(began) != 2 || began[0] != want || began[1] != want+listenLimit || renewals != 6 {
			t.Errorf("it listens from %s on, and renews %d times", began, renewals)
		}
	})
}

// A candidate keeps the tick of its first answer, however long it stands by.
func TestTickStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.command = lasts(time.Second, 0)
		var ticks []int64
		w.acquire = func(_ context.Context, r lease.Request) (lease.Lease, error) {
			ticks = append(ticks, r.Tick)
			switch len(ticks) {
			case 1:
				return lease.Lease{}, &lease.StoreError{Op: "acquire", Err: errors.New("reset")}
			case 2, 3:
				return lease.Lease{}, &lease.HeldError{Condition: lease.Condition{Remaining: time.Second, Tick: int64(1000 * len(ticks))}}
			case 4: // a late duplicate of the first request was granted
				return lease.Lease{Holder: r.Holder, Token: 7, Tick: 1500}, nil
			}
			return lease.Lease{Holder: r.Holder, Token: 8, Tick: r.Tick}, nil
		}
		set := w.settings()
		set.OncePer, set.Wait = true, time.Minute
		r := Run(t.Context(), set, w, w, w)
		if want := []int64{0, 0, 2000, 2000, 2000}; !slices.Equal(ticks, want) {
			t.Errorf("asked with the ticks %d, want %d", ticks, want)
		}
		if r.Outcome != candidate.Exited || r.Lease.Tick != 2000 || w.holders[3] == w.holders[4] {
			t.Errorf("%s under tick %d, holders %q", r.Outcome, r.Lease.Tick, w.holders)
		}
	})
}

// With a schedule the candidate chooses its tick by its own clock, and says when that
// tick is right. The store's clock decides, and the tick it gives is kept.
func TestTickOfSchedule(t *testing.T) {
	for name, test := range map[string]struct {
		host int64 // what the host's clock shows; the store's shows 4200
		want []lease.Request
	}{
		"right": {4900, []lease.Request{{Tick: 4000, TickFrom: 4000, TickUntil: 5000}, {Tick: 4000}, {Tick: 4000}}},
		"wrong": {8100, []lease.Request{{Tick: 8000, TickFrom: 8000, TickUntil: 9000}, {Tick: 4000}, {Tick: 4000}, {Tick: 4000}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.command = lasts(time.Second, 0)
			var asked []lease.Request
			now := int64(4200)
			w.acquire = func(_ context.Context, r lease.Request) (lease.Lease, error) {
				asked = append(asked, lease.Request{Tick: r.Tick, TickFrom: r.TickFrom, TickUntil: r.TickUntil})
				if r.Period != time.Duration(r.Tick)*time.Second {
					t.Errorf("%s: a period of %s for the tick %d", name, r.Period, r.Tick)
				}
				held := &lease.HeldError{Condition: lease.Condition{Remaining: time.Second, Tick: now}}
				switch {
				case r.TickUntil != 0 && (now < r.TickFrom || now >= r.TickUntil):
					return lease.Lease{}, &lease.ClockError{Condition: lease.Condition{Why: lease.ClockDiffers, Tick: now}}
				case now == 4200:
					now = 5300 // the next tick has come
					return lease.Lease{}, held
				case now == 5300:
					now = 5400
					return lease.Lease{}, held
				}
				return lease.Lease{Holder: r.Holder, Token: 8, Tick: r.Tick}, nil
			}
			set := w.settings()
			set.OncePer, set.Wait, set.Request.Exact = true, time.Minute, true
			set.WallNow = func() time.Time { return time.UnixMilli(test.host) }
			set.TickAt = func(now int64) lease.Tick {
				at := now - now%1000
				return lease.Tick{At: at, From: at, Until: at + 1000, Period: time.Duration(at) * time.Second}
			}
			r := Run(t.Context(), set, w, w, w)
			if !slices.Equal(asked, test.want) {
				t.Errorf("%s: asked %+v, want %+v", name, asked, test.want)
			}
			if r.Outcome != candidate.Exited || r.Tick != 4000 || len(slices.Compact(w.holders)) != 1 {
				t.Errorf("%s: %s under tick %d, holders %q", name, r.Outcome, r.Tick, w.holders)
			}
		})
	}
}

// The lease counts from before the request, however late the answer comes.
func TestSlowAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.renew = func(ctx context.Context, l lease.Lease) (lease.Lease, error) {
			if time.Since(w.start) > 10*time.Second {
				return l, silent(ctx)
			}
			time.Sleep(1900 * time.Millisecond)
			return l, nil
		}
		Run(t.Context(), w.settings(), w, w, w)
		if want := 10*time.Second + time.Hour + w.settings().KillBy(0); w.killBy != want {
			t.Errorf("kill-by at %s, want %s: counted from the request at 10 s", w.killBy, want)
		}
	})
}

func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.stubborn = true
		w.renew = func(_ context.Context, l lease.Lease) (lease.Lease, error) {
			return l, fmt.Errorf("test: %w", lease.ErrLost)
		}
		r := Run(t.Context(), w.settings(), w, w, w)
		w.expect("0.0 acquire", "0.0 start", "10.0 renew", "10.0 signal 15", "11.0 kill", "11.0 gone", "11.0 release")
		if r.Outcome != candidate.Lost || !errors.Is(r.Err, lease.ErrLost) {
			t.Error(r.Outcome, r.Err)
		}
	})
}

func TestGrantTooLateIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.acquire = func(_ context.Context, r lease.Request) (lease.Lease, error) {
			time.Sleep(22 * time.Second) // a store that answers after its context has ended
			return lease.Lease{Token: 1}, nil
		}
		r := Run(t.Context(), w.settings(), w, w, w)
		w.expect("0.0 acquire", "22.0 release")
		if r.Outcome != candidate.Unavailable || w.released.Ran {
			t.Errorf("%s %+v", r.Outcome, w.released)
		}
	})
}

// After a sleep past kill-by, the tree is killed before the store is asked.
func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		set := w.settings()
		set.Now = func() time.Duration {
			if time.Since(w.start) > 5*time.Second {
				return w.now() + time.Hour
			}
			return w.now()
		}
		r := Run(t.Context(), set, w, w, w)
		synctest.Wait() // what was asked beside that
		w.log = w.log[:min(3, len(w.log))]
		w.expect("0.0 acquire", "0.0 start", "10.0 kill")
		if r.Outcome != candidate.Expired {
			t.Error(r.Outcome)
		}
	})
}

// slow is an observer that is slow at a grant, like a lease file on a slow disk.
type slow struct{ took time.Duration }

func (s slow) Observe(t Transition) {
	if t.Event.Kind == elect.Granted {
		time.Sleep(s.took)
	}
}

// Time between the grant and the start counts: after stop-by nothing is started, even
// before kill-by.
func TestSlowStart(t *testing.T) {
	const stopBy = 21195 * time.Millisecond
	for took, want := range map[time.Duration]candidate.Outcome{stopBy - 1: candidate.Exited, stopBy: candidate.Expired} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.command = lasts(0, 0)
			r := Run(t.Context(), w.settings(), w, w, slow{took})
			if started := w.killBy != 0; r.Outcome != want || started != (want == candidate.Exited) {
				t.Errorf("%s after the grant: %s, started: %t; %q", took, r.Outcome, started, w.log)
			}
		})
	}
}
