//go:build linux

package etcd

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// shifted returns a store whose members' clocks are ahead.
func shifted(t *testing.T, b backend, c *networktest.Clock, ahead time.Duration) *Store {
	s := b.open(t)
	c.Set(&s.Now, &s.Wall)
	wall := s.Wall
	s.Wall = func(ms int64) int64 { return wall(ms) + ahead.Milliseconds() }
	return s
}

// One member answered the holder, others answer the candidates.
func TestMembersClocks(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	for name, c := range map[string]struct {
		ahead, after time.Duration
		granted      bool
	}{
		"ahead":                  {30 * time.Second, 29 * time.Second, false},
		"ahead, at the very end": {30 * time.Second, 29*time.Second + 900*time.Millisecond, false},
		"over by both":           {30 * time.Second, 33 * time.Second, true},
		"behind":                 {-30 * time.Second, 89 * time.Second, false},
		"behind, and over":       {-30 * time.Second, 92 * time.Second, true},
		"the same":               {0, 59 * time.Second, false},
		"the same, over":         {0, 62 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			var now networktest.Clock
			r := request(strings.NewReplacer(",", "", " ", "-").Replace(name))
			grant(t, shifted(t, b, &now, 0), r)
			now.Advance(c.after)
			candidate := request(r.Key)
			_, err := shifted(t, b, &now, c.ahead).Acquire(bounded(t), candidate)
			if held := errors.As(err, new(*lease.HeldError)); held == c.granted || !held && !errors.As(err, new(*lease.SettlingError)) {
				t.Errorf("%v", err)
			}
		})
	}
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

// A change whose answer is lost may have been made. If its request arrives late, it finds
// another revision and changes nothing.
func TestLateTransaction(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	l := grant(t, s, request("k"))
	m := keeper{s, b.Addr}
	read := func() keep.Row {
		r, err := m.Read(bounded(t), "k")
		must.Succeed(t, err)
		return r
	}
	late := read()
	if _, err := late.Renew(l, late.Now); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, s.Release(bounded(t), l, lease.Result{Ran: true}))
	if now, saved, err := m.Swap(bounded(t), late, keep.Effect{}); saved || err != nil || now.Grant != nil {
		t.Errorf("the renewal of a released lease is saved: %t, %v, %+v", saved, err, now.Grant)
	}
	again := read()
	if _, saved, err := m.Swap(bounded(t), again, keep.Effect{}); !saved || err != nil {
		t.Fatal(err)
	}
	if _, saved, err := m.Swap(bounded(t), again, keep.Effect{}); saved || err != nil {
		t.Errorf("its duplicate is saved: %t, %v", saved, err)
	}
}
