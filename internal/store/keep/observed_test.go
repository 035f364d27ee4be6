package keep

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// apartly returns a memory with the clocks of several servers, in which no key settles.
func apartly() *memory {
	m := newSettled()
	m.now.Apart = 30_000
	return m
}

// The same, if candidates measure a lease, or holders remember their rows.
func TestContractOfOthers(t *testing.T) {
	for name, c := range map[string]struct{ apart, remembers bool }{"apart": {apart: true}, "remembers": {remembers: true}} {
		t.Run(name, func(t *testing.T) {
			m := newMemory()
			h := leasetest.Harness{Unit: 40 * time.Second, Advance: m.advance, Wakes: true, WakesAll: true, Settles: true}
			if c.apart {
				h.Apart = 30 * time.Second
				m.now.Apart = h.Apart.Milliseconds()
			}
			h.Open = func(*testing.T) lease.Store {
				s := m.open()
				s.Remembers = c.remembers
				return s
			}
			leasetest.Run(t, h)
		})
	}
}

func renewed(t *testing.T, s lease.Store, l lease.Lease) {
	t.Helper()
	_, err := s.Renew(t.Context(), l)
	must.Succeed(t, err)
}

// called reports whether the holder is called.
func called(t *testing.T, s lease.Store) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := s.Listen(ctx, "k")
	if err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	return err == nil
}

// back returns a function that restores the present data.
func (m *memory) back() (restore func()) {
	text := m.rows["k"]
	return func() { m.rows["k"] = text }
}

// A request to hand over calls the holder until a renewal has reported it. So does a store
// that may have lost its lease.
func TestHolderIsCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newSettled()
		holder, others := m.open(), m.open()
		l := granted(t, holder, candidate("first"))
		if called(t, holder) {
			t.Error("called after the grant")
		}
		atGrant := m.back()
		if _, err := others.HandOver(t.Context(), "k"); err != nil || !called(t, holder) {
			t.Errorf("not called to hand over, %v", err)
		}
		do := holder.Do
		holder.Do = func(ctx context.Context, _ string, call func(context.Context, Keeper) error) error {
			return call(ctx, &lossy{memory: m})
		}
		m.advance(time.Second)
		if _, err := holder.Renew(t.Context(), l); !errors.Is(err, errLost) || !called(t, holder) {
			t.Errorf("after a renewal without an answer (%v) the call is over", err)
		}
		holder.Do = do
		renewed(t, holder, l)
		if called(t, holder) {
			t.Error("called after the renewal")
		}
		atGrant()
		if !called(t, holder) {
			t.Error("the store went back, and the holder is not called")
		}
		renewed(t, holder, l)
		if called(t, holder) {
			t.Error("called after the renewal")
		}
		_, err := others.Revoke(t.Context(), "k", true)
		must.Succeed(t, err)
		granted(t, others, candidate("second"))
		r, err := m.Read(t.Context(), "k")
		must.Succeed(t, err)
		r.Called = holder.seen("k").renewalCalled
		if _, saved, err := m.Swap(t.Context(), r, Effect{}); !saved || !called(t, holder) {
			t.Errorf("another is granted the key, and the holder is not called: %v", err)
		}
	})
}

// A row that was read while a renewal was under way lacks it, and is no loss of data.
func TestRenewalBesideAReadCallsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newSettled()
		holder := m.open()
		l := granted(t, holder, candidate("first"))
		hear := holder.Hear
		holder.Hear = func(ctx context.Context, bell Bell, key string, until func(Row) bool) error {
			first := sync.OnceFunc(func() { m.advance(time.Second); renewed(t, holder, l) })
			return hear(ctx, bell, key, func(r Row) bool { first(); return until(r) })
		}
		if called(t, holder) {
			t.Error("called by its own renewal")
		}
	})
}

// A standby that waits sees each renewal at once. So it takes over from a dead holder when the
// lease is over, although the servers' clocks may differ. A renewal is seen even if the store
// has come back with older data.
func TestStandbySeesRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := apartly()
		holder, standby := m.open(), m.open()
		r := candidate("first")
		l := granted(t, holder, r)
		atGrant := m.back()
		waiting, cancel := context.WithCancel(t.Context())
		go func() { _ = standby.Wait(waiting, "k", time.Hour) }()
		synctest.Wait()
		m.advance(r.TTL / 2)
		renewed(t, holder, l)
		synctest.Wait()
		cancel()
		m.advance(r.TTL - time.Second)
		ask := func() {
			t.Helper()
			if _, err := standby.Acquire(t.Context(), candidate("second")); !errors.As(err, new(*lease.HeldError)) {
				t.Fatalf("a standby was answered %v", err)
			}
		}
		ask()
		atGrant()
		renewed(t, holder, l)
		ask() // by its own clock it has only now seen the renewal
		m.advance(r.TTL - time.Second)
		ask()
		m.advance(2 * time.Second)
		granted(t, standby, candidate("second"))
	})
}

// A key settles by the candidate's own clock, from the answer that showed it, and for longer if
// that was slow. The store's clock does not matter.
func TestSettlesByTheCandidatesClock(t *testing.T) {
	m := newMemory()
	s := m.open()
	const slow = time.Second
	s.Do = swapping{m, func(ctx context.Context, r Row, e Effect) (Row, bool, error) {
		m.advance(slow)
		return m.Swap(ctx, r, e)
	}}.do
	r := candidate("first")
	ask := func(settles bool) {
		t.Helper()
		if _, err := s.Acquire(t.Context(), r); errors.As(err, new(*lease.SettlingError)) != settles {
			t.Errorf("%v, want it to settle: %t", err, settles)
		}
	}
	ask(true)
	m.now.Up, m.now.Wall = m.now.Up+30_000, m.now.Wall+30_000 // the store's clock is set
	ask(true)
	m.advance(2*slow + 200*time.Millisecond)
	ask(true)
	m.now.Up, m.now.Wall = m.now.Up-30_000, m.now.Wall-30_000
	m.advance(200 * time.Millisecond)
	ask(false)
}

// Time in which a candidate has no answer does not count: a called holder may have none either.
func TestSettlesWhileTheStoreAnswers(t *testing.T) {
	m := newMemory()
	s := m.open()
	r := candidate("first")
	settles := func() {
		t.Helper()
		if _, err := s.Acquire(t.Context(), r); !errors.As(err, new(*lease.SettlingError)) {
			t.Errorf("%v, want it to settle", err)
		}
	}
	settles()
	m.advance(Settle * time.Millisecond)
	answers := s.Do
	s.Do = func(context.Context, string, func(context.Context, Keeper) error) error { return errLost }
	if _, err := s.Acquire(t.Context(), r); !errors.Is(err, errLost) {
		t.Error(err)
	}
	s.Do = answers
	settles()
	m.advance(Settle * time.Millisecond)
	granted(t, s, r)
}

// reading counts the reads of rows.
type reading struct {
	*memory
	times *int
}

func (k reading) Read(ctx context.Context, key string) (Row, error) {
	*k.times++
	return k.memory.Read(ctx, key)
}

// A holder that remembers its row renews and releases without a read, until a call fails.
func TestHolderRemembers(t *testing.T) {
	m, times, fails := newSettled(), 0, false
	s := m.open()
	s.Remembers = true
	s.Do = func(ctx context.Context, _ string, call func(context.Context, Keeper) error) error {
		if fails {
			return errLost
		}
		return call(ctx, reading{m, &times})
	}
	reads := func(want int, what string) {
		t.Helper()
		if times != want {
			t.Errorf("%d reads for %s, want %d", times, what, want)
		}
		times = 0
	}
	l := granted(t, s, candidate("first"))
	reads(1, "a grant")
	m.advance(time.Second)
	renewed(t, s, l)
	m.advance(59 * time.Second)
	renewed(t, s, l)
	reads(0, "renewals")
	fails = true
	if _, err := s.Renew(t.Context(), l); !errors.Is(err, errLost) {
		t.Error(err)
	}
	fails = false
	m.advance(time.Second)
	renewed(t, s, l)
	reads(1, "the renewal after a failure")
	must.Succeed(t, s.Release(t.Context(), l, lease.Result{}))
	reads(0, "a release")
	if now := leads(t, m.open()); now.Holder != "" {
		t.Errorf("%+v after the release", now)
	}
}
