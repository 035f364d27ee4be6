//go:build linux

package etcd

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// shifted returns a store whose members' clocks are ahead.
func shifted(t *testing.T, b backend, c *networktest.Clock, ahead time.Duration) *Store {
	s := b.open(t)
	c.Set(s.Store)
	wall := s.Wall
	s.Wall = func(ms int64) int64 { return wall(ms) + ahead.Milliseconds() }
	return s
}

// A standby is granted the key one TTL after the last renewal that it saw, by its own clock.
// That does not depend on the members' clocks, nor on when it began to ask.
func TestStandbyWatchesRenewals(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	var now networktest.Clock
	holder := shifted(t, b, &now, 25*time.Second)
	standby := shifted(t, b, &now, -25*time.Second)
	l := grant(t, holder, request("k"))
	r := request("k")
	denied(t, standby, r)
	now.Advance(10 * time.Second)
	var seen atomic.Int64
	hear := standby.Hear
	standby.Hear = func(ctx context.Context, bell keep.Bell, key string, until func(keep.Row) bool) error {
		return hear(ctx, bell, key, func(r keep.Row) bool { defer seen.Store(r.Renewed); return until(r) })
	}
	watching, enough := context.WithCancel(bounded(t))
	over := networktest.Start(func() error { return standby.Wait(watching, "k", time.Minute) })
	for range 10 { // they begin before the standby watches, and end while it does
		renew(t, holder, l)
		time.Sleep(50 * time.Millisecond)
	}
	last, err := keeper{holder, b.Addr}.Read(bounded(t), "k")
	must.Succeed(t, err)
	for seen.Load() != last.Renewed {
		if watching.Err() != nil {
			t.Fatal("the last renewal was not seen")
		}
		time.Sleep(time.Millisecond)
	}
	enough()
	<-over
	now.Advance(25 * time.Second) // the holder is dead
	if left := denied(t, standby, r).Remaining; left < 2*time.Second || left > 5*time.Second {
		t.Errorf("%s are left, want 5 s since the last renewal that was seen", left)
	}
	now.Advance(denied(t, standby, r).Remaining + time.Millisecond)
	networktest.GrantAfter(t, standby, r, l)
}

// A standby that watches can tell two renewals in the same second apart.
func TestRenewalsWithinASecond(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	var c networktest.Clock
	holder, standby := shifted(t, b, &c, 0), shifted(t, b, &c, 0)
	holder.Wall = func(int64) int64 { return 1_800_000_000_000 }
	l := grant(t, holder, request("k"))
	r := request("k")
	for range 3 {
		renew(t, holder, l)
		if left := denied(t, standby, r).Remaining; left < 29*time.Second {
			t.Fatalf("%s are left, want 30 s from now on", left)
		}
		c.Advance(20 * time.Second)
	}
}
