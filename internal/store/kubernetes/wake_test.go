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
