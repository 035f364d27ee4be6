//go:build linux

package kubernetes

import (
	"context"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// Candidates that settle, operators and other programs that take the lease call the holder;
// its own renewals and standbys do not.
func TestHolderIsCalled(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	other := b.open(t)
	for key, call := range map[string]func() error{
		"hand-over": func() error { _, err := other.HandOver(bounded(t), "hand-over"); return err },
		"revoked":   func() error { _, err := other.Revoke(bounded(t), "revoked", false); return err },
		"deleted":   func() error { b.wipe(t); return nil },
		"taken": func() error {
			b.put(t, "taken", map[string]any{"spec": map[string]any{"holderIdentity": "rival"}})
			return nil
		},
	} {
		t.Run(key, func(t *testing.T) {
			s := b.open(t)
			l := grant(t, s, request(key))
			seen := make(chan struct{}, 100)
			watched(s, seen)
			over := networktest.Start(func() error { return s.Listen(bounded(t), key) })
			<-seen
			renew(t, s, l)
			<-seen // now it watches
			denied(t, other, request(key))
			select {
			case err := <-over:
				t.Fatalf("called, and nobody did: %v", err)
			case <-time.After(100 * time.Millisecond):
			}
			must.Succeed(t, call())
			must.Succeed(t, endOf(t, over))
		})
	}
}

// watched sends to seen for every row that a call follows.
func watched(s *Store, seen chan<- struct{}) {
	hear := s.Hear
	s.Hear = func(ctx context.Context, bell keep.Bell, key string, until func(keep.Row) bool) error {
		return hear(ctx, bell, key, func(r keep.Row) bool { defer func() { seen <- struct{}{} }(); return until(r) })
	}
}

// A standby sees the renewals, and is granted the key one TTL after the last one.
func TestStandbyWatchesRenewals(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	var now networktest.Clock
	holder, standby := b.open(t), b.open(t)
	now.Set(&holder.Now, &holder.Wall)
	now.Set(&standby.Now, &standby.Wall)
	l := grant(t, holder, request("k"))
	r := request("k")
	denied(t, standby, r)
	seen := make(chan struct{}, 100)
	watched(standby, seen)
	watching, enough := context.WithCancel(bounded(t))
	over := networktest.Start(func() error { return standby.Wait(watching, "k", time.Minute) })
	<-seen
	now.Advance(20 * time.Second)
	renew(t, holder, l)
	<-seen
	enough()
	<-over
	now.Advance(25 * time.Second) // the holder is dead
	if left := denied(t, standby, r).Remaining; left < 3*time.Second || left > 5*time.Second {
		t.Errorf("%s are left, want 5 s since the renewal that was seen", left)
	}
	now.Advance(denied(t, standby, r).Remaining + time.Millisecond)
	networktest.GrantAfter(t, standby, r, l) // once the holder was called
}

// A standby waits on its only connection.
func TestConnections(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	var w networktest.Wire
	standby := b.openWith(t, Options{Dialer: w.Dial})
	networktest.StandbyWaitsOnItsConnection(t, b.open(t), standby, &w, func(call func() error) <-chan error {
		over := networktest.Start(call)
		time.Sleep(200 * time.Millisecond)
		return over
	})
}
