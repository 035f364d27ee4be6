package networktest

import (
	"errors"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
	"github.com/leaderrun/leaderrun/internal/store/cas"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// Harness is that of a store that wakes all who wait and settles, as far as it is the same
// for all. Its subtests may share a server: the network of one stalls.
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

// Shifted is the Harness of a store whose servers' clocks may differ by some ms. They are
// moved on, not waited for: a lease that nobody watched outlives its TTL by as much.
func Shifted(apart time.Duration, open func(*testing.T, network.Dial) (lease.Store, *cas.Store)) leasetest.Harness {
	var clock Clock
	h := Harness(func(t *testing.T, dial network.Dial) lease.Store {
		s, config := open(t, dial)
		clock.Set(&config.Now, &config.Wall)
		return s
	})
	h.Unit, h.Apart, h.Advance = apart+10*time.Second, apart, clock.Advance
	return h
}

// StandbyWaitsOnItsConnection wants one to have no other, which w counts. Waiting returns
// once a call waits.
func StandbyWaitsOnItsConnection(t *testing.T, holder, standby Store, w *Wire, waiting func(call func() error) <-chan error) {
	t.Helper()
	l := Grant(t, holder, Request("k"))
	if _, err := standby.Acquire(Bounded(t), Request("k")); !errors.As(err, new(*lease.HeldError)) {
		t.Fatal(err)
	}
	over := waiting(func() error { return standby.Wait(Bounded(t), "k", time.Minute) })
	if err := holder.Release(Bounded(t), l, lease.Result{Ran: true}); err != nil {
		t.Fatal(err)
	}
	if err := EndOf(t, over); err != nil || w.Used() != 1 {
		t.Errorf("%d connections, %v", w.Used(), err)
	}
}
