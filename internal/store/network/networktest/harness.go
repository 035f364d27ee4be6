package networktest

import (
	"errors"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/network"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// Harness is the common part of the harnesses of stores that wake all standbys and settle.
// Subtests may share a server: a stall only affects the connections of one subtest.
func Harness(open func(*testing.T, network.Dial) lease.Store) leasetest.Harness {
	stalls := &Stalls{}
	return leasetest.Harness{
		Open:     func(t *testing.T) lease.Store { return open(t, stalls.Dialer(t)) },
		Unit:     400 * time.Millisecond,
		Wakes:    true,
		WakesAll: true,
		Settles:  true,
		Stall:    stalls.Stall,
	}
}

// Shifted is the Harness of a store whose servers' clocks may differ by apart. A lease that
// nobody watched is held for that much longer: the test advances the clocks instead of
// waiting.
func Shifted(apart time.Duration, open func(*testing.T, network.Dial) (lease.Store, *keep.Store)) leasetest.Harness {
	var clock Clock
	h := Harness(func(t *testing.T, dial network.Dial) lease.Store {
		s, config := open(t, dial)
		clock.Set(config)
		return s
	})
	h.Unit, h.Apart, h.Advance = apart+10*time.Second, apart, clock.Advance
	return h
}

// StandbyWaitsOnItsConnection checks that a standby uses one connection for its requests and
// its waits. w counts its connections; waiting starts a call and returns once it waits.
func StandbyWaitsOnItsConnection(t *testing.T, holder, standby Store, w *Wire, waiting func(call func() error) <-chan error) {
	t.Helper()
	l := Grant(t, holder, Request("k"))
	if _, err := standby.Acquire(Bounded(t), Request("k")); !errors.As(err, new(*lease.HeldError)) {
		t.Fatal(err)
	}
	over := waiting(func() error { return standby.Wait(Bounded(t), "k", time.Minute) })
	must.Succeed(t, holder.Release(Bounded(t), l, lease.Result{Ran: true}))
	if err := EndOf(t, over); err != nil || w.Used() != 1 {
		t.Errorf("%d connections, %v", w.Used(), err)
	}
}
