//go:build linux

package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// following starts a call that waits, and returns a channel for its result once etcd has
// acknowledged the watch.
func following(t *testing.T, w *networktest.Wire, call func() error) <-chan error {
	t.Helper()
	over := networktest.Start(call)
	awaits(t, "watch", func() bool { return strings.Contains(w.Sent(), "/v3/watch") && w.Answered() })
	return over
}

// A call that comes before the holder listens is heard, once.
func TestHolderIsCalledEarly(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	l := grant(t, s, request("k"))
	if _, err := b.open(t).HandOver(bounded(t), "k"); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, s.Listen(bounded(t), "k"))
	if l, err := s.Renew(bounded(t), l); err != nil || !l.HandOver {
		t.Fatalf("%+v, %v", l, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := s.Listen(ctx, "k"); err == nil {
		t.Error("called twice")
	}
}

// A standby waits on its only connection; a leader has a second one.
func TestConnections(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	var w networktest.Wire
	standby := openWith(t, Options{URL: "etcd://" + b.Addr, Dialer: w.Dial})
	networktest.StandbyWaitsOnItsConnection(t, b.open(t), standby, &w, func(call func() error) <-chan error { return following(t, &w, call) })
}

func TestServerIsLostWhileWaiting(t *testing.T) {
	t.Parallel()
	for op, call := range map[string]func(t *testing.T, s *Store) error{
		"wait":   func(t *testing.T, s *Store) error { return s.Wait(bounded(t), "k", time.Minute) },
		"listen": func(t *testing.T, s *Store) error { return s.Listen(bounded(t), "k") },
	} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t)
			var w networktest.Wire
			s := openWith(t, Options{URL: "etcd://" + b.Addr, Dialer: w.Dial})
			l := grant(t, s, request("k"))
			over := following(t, &w, func() error { return call(t, s) })
			b.Kill()
			networktest.WantError(t, endOf(t, over), false, op+": ", "")
			var failure *lease.StoreError
			if err := call(t, s); !errors.As(err, &failure) || !failure.Refused {
				t.Errorf("no server: %v", err)
			}
			b.Restart()
			renew(t, s, l) // the next renewal
		})
	}
}

// If the revision of a watch has been compacted, the wait ends: there may have been a
// release.
func TestCompacted(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	l := grant(t, s, request("k"))
	for range 3 {
		renew(t, s, l)
	}
	_, revision, err := keeper{s, b.Addr}.read(bounded(t), "k")
	must.Succeed(t, err)
	b.ask(t, "/v3/kv/compaction", map[string]any{"revision": revision, "physical": true})
	w, err := s.client.watch(bounded(t), b.Addr, s.leaseOf("k"), 2)
	must.Succeed(t, err)
	defer w.close()
	if m, err := w.next(); err != nil || m.Result.Compact == 0 {
		t.Errorf("%+v, %v", m, err)
	}
}
