package campaign

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// on runs a test with hosts in virtual time.
func on(t *testing.T, test func(t *testing.T, h *hosts)) {
	synctest.Test(t, func(t *testing.T) { test(t, newHosts(t)) })
}

// oncePer is a line of a crontab.
func oncePer(period, wait time.Duration, tries int) func(*Settings) {
	return func(s *Settings) { s.Request.Period, s.Wait, s.Request.Tries = period, wait, tries }
}

func minHold(hold, wait time.Duration) func(*Settings) {
	return func(s *Settings) { s.Request.MinHold, s.Wait = hold, wait }
}

const ms = time.Millisecond

// Of four hosts with different clocks one runs the job of a tick; the others skip, during
// the run and after it. The next tick has its own run.
func TestOneRunPerTick(t *testing.T) {
	for name, wait := range map[string]time.Duration{"no wait": 0, "wait": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			on(t, func(t *testing.T, h *hosts) {
				h.job = ends(300*ms, 0)
				none := map[string]int{"exited 0": 1, "skipped": 3}
				if wait == 0 {
					none = map[string]int{"exited 0": 1, "denied": 1, "skipped": 2}
				}
				h.count(h.line(4, 200*ms, oncePer(10*time.Second, wait, 2)), none)
				h.count(h.line(1, 0, oncePer(10*time.Second, 0, 2)), map[string]int{"skipped": 1})
				time.Sleep(10*time.Second - time.Since(h.start))
				h.count(h.line(4, 200*ms, oncePer(10*time.Second, wait, 2)), none)
				h.started(0, 10*time.Second)
			})
		})
	}
}

// A job that always fails starts --tries times per tick, however many hosts there are.
// Those that ran it end with its status, the others skip.
func TestTriesPerTick(t *testing.T) {
	for tries, want := range map[int]map[string]int{
		1: {"exited 9": 1, "skipped": 4}, 2: {"exited 9": 2, "skipped": 3}, 3: {"exited 9": 3, "skipped": 2},
	} {
		on(t, func(t *testing.T, h *hosts) {
			h.job = ends(300*ms, 9)
			h.count(h.line(5, 100*ms, oncePer(time.Hour, 50*time.Second, tries)), want)
			h.started([]time.Duration{0, 300 * ms, 600 * ms}[:tries]...)
		})
	}
}

// Crashes are starts as well. A standby follows once the lease has expired.
func TestCrashesAreTries(t *testing.T) {
	on(t, func(t *testing.T, h *hosts) {
		h.job = func(context.Context, int) (elect.Exit, bool) { return elect.Exit{Signal: 9}, true }
		short := func(s *Settings) {
			oncePer(time.Hour, 50*time.Second, 2)(s)
			s.Timing, s.Request.TTL = elect.NewTiming(3*time.Second, time.Second, 10*time.Second), 3*time.Second
		}
		results := h.line(4, 100*ms, short)
		h.started(0, 3*time.Second)
		skipped := 0
		for _, r := range results {
			if r.Outcome == elect.Skipped {
				skipped++
			}
		}
		if skipped != 2 {
			t.Errorf("%d skipped, want those that ran nothing", skipped)
		}
	})
}

// Without --wait the tries are those of hosts that come one after the other, and a
// tick that is half a period later has its own.
func TestTriesOfLaterHosts(t *testing.T) {
	on(t, func(t *testing.T, h *hosts) {
		h.job = func(ctx context.Context, n int) (elect.Exit, bool) {
			return ends(0, map[bool]int{true: 9, false: 0}[n < 4])(ctx, n)
		}
		later := oncePer(8*time.Second, 0, 2)
		var all []Result
		for range 3 {
			all = append(all, h.run(later))
		}
		h.count(all, map[string]int{"exited 9": 2, "skipped": 1})
		time.Sleep(3999 * ms)
		h.count(h.line(1, 0, later), map[string]int{"skipped": 1})
		time.Sleep(ms)
		all = nil
		for range 3 {
			all = append(all, h.run(later))
		}
		h.count(all, map[string]int{"exited 9": 1, "exited 0": 1, "skipped": 1})
	})
}

// The host that runs the job dies. Before the lease has expired others skip, or wait;
// then one of them runs it, and the others skip.
func TestHostDiesInATick(t *testing.T) {
	on(t, func(t *testing.T, h *hosts) {
		h.job = func(ctx context.Context, n int) (elect.Exit, bool) { return lasts(300*ms, 0)(ctx), n == 1 }
		go h.run(oncePer(time.Hour, 0, 2))
		time.Sleep(time.Second)
		h.count(h.line(1, 0, oncePer(time.Hour, 0, 2)), map[string]int{"denied": 1})
		h.count(h.line(3, 100*ms, oncePer(time.Hour, 50*time.Second, 2)), map[string]int{"exited 0": 1, "skipped": 2})
		h.count(h.line(1, 0, oncePer(time.Hour, 0, 2)), map[string]int{"skipped": 1})
		h.started(0, 30*time.Second)
		time.Sleep(time.Minute) // what is left of the dead host ends
	})
}

// The job of the first tick takes longer than the period. A candidate of the second tick
// skips, or waits and runs. The third tick is not delayed: a tick is the time of a
// candidate's first request, not of its run.
func TestJobLongerThanItsPeriod(t *testing.T) {
	on(t, func(t *testing.T, h *hosts) {
		h.job = func(ctx context.Context, n int) (elect.Exit, bool) {
			return lasts(map[bool]time.Duration{true: 6100 * ms}[n == 1], 0)(ctx), false
		}
		go h.run(oncePer(4*time.Second, 0, 2))
		time.Sleep(4 * time.Second)
		h.count(h.line(1, 0, oncePer(4*time.Second, 0, 2)), map[string]int{"denied": 1})
		h.count(h.line(1, 0, oncePer(4*time.Second, 3900*ms, 2)), map[string]int{"exited 0": 1})
		h.count(h.line(1, 0, oncePer(4*time.Second, 0, 2)), map[string]int{"exited 0": 1})
		h.started(0, 6100*ms, 6100*ms)
	})
}

// A candidate of an old tick stands by for a run that fails, and is stopped while a newer
// tick is served: it skips, although its own tick was not served.
func TestOldTickIsSkipped(t *testing.T) {
	on(t, func(t *testing.T, h *hosts) {
		h.job = func(ctx context.Context, n int) (elect.Exit, bool) {
			if n == 1 {
				return lasts(3200*ms, 9)(ctx), false
			}
			return elect.Exit{}, false
		}
		go h.run(oncePer(6*time.Second, 0, 2))
		time.Sleep(100 * ms)
		old := make(chan Result, 1)
		stopped := &host{hosts: h, end: func() {}, stopped: 4 * time.Second}
		go func() { old <- h.runOn(stopped, oncePer(6*time.Second, 5*time.Second, 2)) }()
		time.Sleep(3200 * ms)
		h.count(h.line(1, 0, oncePer(6*time.Second, 0, 2)), map[string]int{"exited 0": 1})
		h.count([]Result{<-old}, map[string]int{"skipped": 1})
		h.started(0, 3300*ms)
	})
}

// A job of 10 ms on ten hosts that are up to 3 s apart: one runs it, and does not wait for
// the hold. A standby gets its turn when the hold is over, and not before.
func TestMinimumHold(t *testing.T) {
	on(t, func(t *testing.T, h *hosts) {
		h.job = ends(10*ms, 0)
		if h.run(minHold(9*time.Second, 0)); time.Since(h.start) != 10*ms {
			t.Errorf("the run took %s, want 10ms", time.Since(h.start))
		}
		h.count(h.line(9, 300*ms, minHold(9*time.Second, 0)), map[string]int{"denied": 9})
		h.count(h.line(1, 0, minHold(0, 0)), map[string]int{"denied": 1})
		if r := h.run(minHold(0, time.Second)); r.Outcome != elect.Denied || r.Holder.Why != lease.HeldCooldown {
			t.Errorf("%s, %v, want a denial by the minimum hold", r.Outcome, r.Holder)
		}
		h.count(h.line(1, 0, minHold(0, 50*time.Second)), map[string]int{"exited 0": 1})
		h.started(0, 9*time.Second)
	})
}

// It is a minimum: a longer job keeps the lease until its end.
func TestMinimumHoldIsShorterThanTheJob(t *testing.T) {
	on(t, func(t *testing.T, h *hosts) {
		h.job = ends(500*ms, 0)
		h.count(h.line(1, 0, minHold(100*ms, 0)), map[string]int{"exited 0": 1})
		h.count(h.line(1, 0, minHold(0, 0)), map[string]int{"exited 0": 1})
		h.started(0, 500*ms)
	})
}

// The holder's host dies, right after the start or after some renewals: the minimum hold
// still keeps the others out, long after the TTL.
func TestMinimumHoldOutlivesItsHost(t *testing.T) {
	for _, life := range []time.Duration{0, 1500 * ms} {
		on(t, func(t *testing.T, h *hosts) {
			h.job = func(ctx context.Context, n int) (elect.Exit, bool) { return lasts(life, 0)(ctx), n == 1 }
			go h.run(func(s *Settings) {
				s.Timing, s.Request.TTL = elect.NewTiming(3*time.Second, time.Second, 10*time.Second), 3*time.Second
				s.Request.MinHold = 12 * time.Second
			})
			time.Sleep(100 * ms)
			h.count(h.line(9, time.Second, minHold(12*time.Second, time.Second)), map[string]int{"denied": 9})
			h.count(h.line(1, 0, minHold(0, 50*time.Second)), map[string]int{"exited 0": 1})
			h.started(0, 12*time.Second)
			time.Sleep(time.Minute) // what is left of the dead host ends
		})
	}
}

// The limit of --wait is exact to half a second, for any --retry, however often the leader
// renews, and also if it dies meanwhile.
func TestWaitIsExact(t *testing.T) {
	const limit, exact = 2 * time.Second, 500 * ms
	for name, set := range map[string]func(leader, standby *Settings){
		"long pauses":  func(_, s *Settings) { s.Retry = time.Hour },
		"short pauses": func(_, s *Settings) { s.Retry = 10 * ms },
		"a short TTL": func(_, s *Settings) {
			s.Timing, s.Request.TTL = elect.NewTiming(6*time.Second, 2*time.Second, time.Second), 6*time.Second
		},
		"a leader that renews": func(l, _ *Settings) {
			l.Timing, l.Request.TTL = elect.NewTiming(9*time.Second, 500*ms, time.Second), 9*time.Second
		},
		"a leader that dies": func(l, _ *Settings) { l.Request.MinHold = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			on(t, func(t *testing.T, h *hosts) {
				h.job = func(ctx context.Context, n int) (elect.Exit, bool) {
					if name == "a leader that dies" {
						return lasts(time.Second, 0)(ctx), true
					}
					return ends(20*time.Second, 0)(ctx, n)
				}
				var unused Settings
				go h.run(func(s *Settings) { set(s, &unused) })
				time.Sleep(100 * ms)
				began := time.Now()
				r := h.run(func(s *Settings) { s.Wait = limit; set(&unused, s) })
				if took := time.Since(began); r.Outcome != elect.Denied || took < limit || took > limit+exact {
					t.Errorf("%s after %s, want denied after %s", r.Outcome, took, limit)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// The store is away for a part of the wait and the leader survives: the limit counts from
// the beginning, and the last answer is a denial. If the store is away at the end, the
// outcome is Unavailable.
func TestWaitOutlastsAnOutage(t *testing.T) {
	for _, test := range []struct {
		wait, goes, back time.Duration
		want             elect.Outcome
	}{
		{7 * time.Second, 2500 * ms, 4 * time.Second, elect.Denied},
		{3 * time.Second, 2500 * ms, 4 * time.Second, elect.Unavailable},
		{2 * time.Second, ms, 9 * time.Second, elect.Unavailable},
	} {
		on(t, func(t *testing.T, h *hosts) {
			h.job = ends(20*time.Second, 0)
			h.goes, h.back = test.goes, test.back
			go h.run(func(*Settings) {})
			time.Sleep(ms)
			began := time.Now()
			r := h.run(func(s *Settings) { s.Wait, s.Retry = test.wait, 300*ms })
			if took := time.Since(began); r.Outcome != test.want || took < test.wait || took > test.wait+500*ms {
				t.Errorf("%s after %s, want %s after %s", r.Outcome, took, test.want, test.wait)
			}
			time.Sleep(time.Minute)
		})
	}
}
