package campaign

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// kept is a store in memory that follows the contract.
type kept struct {
	mu    sync.Mutex
	state rules.State
	freed chan struct{} // closed when the key may be free, and replaced
}

func newKept() *kept { return &kept{state: rules.New("k"), freed: make(chan struct{})} }

func instant() rules.Instant {
	wall := time.Now().AddDate(20, 0, 0).UnixMilli() // a bubble's time begins in 2000
	return rules.Instant{Boot: "b", Up: wall, Wall: wall}
}

// do applies one verb, and wakes the waiting candidates if it freed the key.
func (k *kept) do(verb func(*rules.State, rules.Instant) error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := verb(&k.state, instant())
	if k.state.Free(instant()) {
		close(k.freed)
		k.freed = make(chan struct{})
	}
	return err
}

func (k *kept) acquire(r lease.Request) (l lease.Lease, err error) {
	return l, k.do(func(st *rules.State, now rules.Instant) error { l, err = st.Acquire(r, now); return err })
}

func (k *kept) free() chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.freed
}

// leads reports whether the holder has the lease.
func (k *kept) leads(h lease.Holder) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	g := k.state.Grant
	return g != nil && g.Holder == h && !g.Cooldown && !g.Revoked && instant().Up < g.Expires
}

// once makes the n-th call to a store fail in one way.
type once struct {
	how string
	n   int

	mu    sync.Mutex
	calls []string
}

// ways are the ways a call may fail. With "done" it has an effect all the same, maybe
// after the caller has given up.
var ways = []string{"unknown", "unknown, done", "refused", "permanent", "hangs", "hangs, done"}

func (fault *once) call(ctx context.Context, op string, do func() error) error {
	fault.mu.Lock()
	fault.calls = append(fault.calls, op)
	now := len(fault.calls) == fault.n
	fault.mu.Unlock()
	if !now {
		return do()
	}
	unknown := &lease.StoreError{Op: op, Err: errors.New(fault.how)}
	switch fault.how {
	case "unknown, done":
		_ = do()
	case "refused":
		unknown.Refused = true
	case "permanent":
		unknown.Permanent = true
	case "hangs":
		<-ctx.Done()
	case "hangs, done":
		<-ctx.Done()
		_ = do()
	}
	return unknown
}

// life is a run and its outcome without a failure.
type life struct {
	name    string
	set     func(*Settings)
	rival   time.Duration // how long another holds the key at first
	order   time.Duration // when leaderrun is ordered to stop
	revoke  time.Duration // when an operator takes the lease away
	outcome candidate.Outcome
	starts  int
}

var lives = []life{
	{"alone", nil, 0, 0, 0, candidate.Exited, 1},
	{"standing by", func(s *Settings) { s.Wait = candidate.Forever }, 5 * time.Second, 0, 0, candidate.Exited, 1},
	{"ordered to stop while standing by", func(s *Settings) { s.Wait = candidate.Forever }, time.Minute, 3 * time.Second, 0, candidate.Ordered, 0},
	{"ordered to stop", nil, 0, 12 * time.Second, 0, candidate.Ordered, 1},
	{"a tick", func(s *Settings) {
		s.OncePer, s.Wait, s.Request.Period, s.Request.Tries = true, time.Minute, time.Hour, 2
	}, 5 * time.Second, 0, 0, candidate.Exited, 1},
	{"lost, and once more", func(s *Settings) { s.Rejoin = true }, 0, 0, 7 * time.Second, candidate.Exited, 2},
}

// Every call to the store fails once, in every way. No command starts without the lease,
// none starts twice, and no two run at once. The outcome is the same as without the
// failure, unless waiting does not help or the candidate does not wait. The lease is
// released.
func TestEveryCallFailsOnce(t *testing.T) {
	runs := 0
	for _, life := range lives {
		for _, how := range ways {
			for n, calls := 1, 1; n <= calls; n++ {
				fault := &once{how: how, n: n}
				t.Run(fmt.Sprintf("%s/%s/%d", life.name, how, n), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { calls = fault.play(t, life) })
				})
				runs++
			}
		}
	}
	t.Logf("%d runs", runs)
}

// play returns how many calls there were.
func (fault *once) play(t *testing.T, y life) int {
	store, w := newKept(), newWorld(t)
	var others, started atomic.Int32
	if y.rival > 0 {
		l, err := store.acquire(lease.Request{Key: "k", TTL: 2 * time.Minute, Holder: "h/1/0123456789abcdef0123456789abcdef"})
		must.Succeed(t, err)
		others.Store(1)
		time.AfterFunc(y.rival, func() {
			others.Store(0)
			_ = store.do(func(st *rules.State, now rules.Instant) error {
				return st.Release(l, lease.Result{Ran: true, Exit: 1}, now)
			})
		})
	}
	if y.revoke > 0 {
		time.AfterFunc(y.revoke, func() {
			_ = store.do(func(st *rules.State, now rules.Instant) error { st.Revoke(true, now); return nil })
		})
	}

	w.acquire = func(ctx context.Context, r lease.Request) (l lease.Lease, err error) {
		err = fault.call(ctx, "acquire", func() error { l, err = store.acquire(r); return err })
		return l, err
	}
	w.renew = func(ctx context.Context, old lease.Lease) (l lease.Lease, err error) {
		err = fault.call(ctx, "renew", func() error {
			return store.do(func(st *rules.State, now rules.Instant) error { l, err = st.Renew(old, now); return err })
		})
		return l, err
	}
	w.wait = func(ctx context.Context) error {
		return fault.call(ctx, "wait", func() error {
			select {
			case <-store.free():
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}
	w.listen = func(ctx context.Context) error {
		return fault.call(ctx, "listen", func() error { <-ctx.Done(); return ctx.Err() })
	}
	w.pass = func(ctx context.Context) error { return fault.call(ctx, "pass", func() error { return nil }) }
	w.release = func(ctx context.Context) error {
		return fault.call(ctx, "release", func() error {
			return store.do(func(st *rules.State, now rules.Instant) error { return st.Release(w.leased, w.released, now) })
		})
	}
	w.command = func(ctx context.Context) candidate.Exit {
		started.Add(1)
		if me := w.holders[len(w.holders)-1]; !store.leads(me) || others.Load() != 0 {
			t.Errorf("started although %s does not lead, or beside %d others", me, others.Load())
		}
		others.Add(1)
		defer others.Add(-1)
		return lasts(25*time.Second, 0)(ctx)
	}

	signals := make(chan Received, 1)
	s := w.settings()
	s.Signals = signals
	s.NewHolder = func() lease.Holder { return lease.NewHolder("h", 2) }
	if y.set != nil {
		y.set(&s)
	}
	const tooLong = 10 * time.Minute
	time.AfterFunc(tooLong, func() { signals <- Received{Signal: 9, Order: true} })
	if y.order > 0 {
		time.AfterFunc(y.order, func() { signals <- Received{Signal: 15, Order: true} })
	}
	r := Run(t.Context(), s, w, w, w)

	outcome, starts, failed := y.outcome, y.starts, ""
	if fault.n <= len(fault.calls) {
		failed = fault.calls[fault.n-1]
	}
	left := false // a grant that nobody knows of
	switch {
	case failed == "acquire" && fault.how == "permanent":
		outcome, starts = candidate.Unavailable, max(0, min(starts, fault.n)-1)
	case failed == "acquire" && s.Wait == 0 && fault.n == 1 && (fault.how == "hangs" || fault.how == "hangs, done"):
		outcome, starts, left = candidate.Unavailable, 0, fault.how == "hangs, done"
	}
	if r.Outcome != outcome || int(started.Load()) != starts {
		t.Errorf("%s after %d starts, want %s after %d\n%q", r.Outcome, started.Load(), outcome, starts, w.log)
	}
	if outcome == candidate.Exited && (r.Exit != candidate.Exit{} || s.OncePer && store.state.ServedTick != r.Lease.Tick) {
		t.Errorf("exit %+v, tick %d, served %d", r.Exit, r.Lease.Tick, store.state.ServedTick)
	}
	if me := w.holders[len(w.holders)-1]; store.leads(me) != left {
		t.Errorf("at the end the lease is left behind: %t, want %t\n%q", !left, left, w.log)
	}
	filed := starts
	if y.rival > 0 && others.Load() == 0 {
		filed++
	}
	if len(store.state.Runs) != filed {
		t.Errorf("%d runs are filed, want %d: %+v", len(store.state.Runs), filed, store.state.Runs)
	}
	return len(fault.calls)
}
