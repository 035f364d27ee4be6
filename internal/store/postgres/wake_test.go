//go:build linux

package postgres

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/faultnet"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// waiting starts a call that waits, and returns a channel for its result once the server has
// received LISTEN.
func waiting(t *testing.T, w *networktest.Wire, call func() error) <-chan error {
	t.Helper()
	over := networktest.Start(call)
	awaits(t, "LISTEN", func() bool { return strings.Contains(w.Sent(), "LISTEN") })
	return over
}

// A standby uses one connection for its waits and for the requests in between.
func TestStandbyHasOneConnection(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	var w networktest.Wire
	standby := openWith(t, Options{URL: b.URL + "?sslmode=disable", Dialer: w.Dial})
	networktest.StandbyHasOneConnection(t, b.open(t), standby, &w, patience, func(call func() error) <-chan error {
		return waiting(t, &w, call)
	})
}

// The attempt at the end of a wait can use the wait's connection. On a busy machine it may
// come too late, so there are several tries.
func TestWaitGivesItsConnectionBack(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	grant(t, b.open(t), request("k"))
	standby := b.open(t)
	idle := func() bool { return len(standby.conns.Idle()) == 1 }
	for range 5 {
		over := networktest.Start(func() error { return standby.Wait(bounded(t), "k", 20*waitEndsEarly) })
		awaits(t, "connection in use", func() bool { return !idle() })
		awaits(t, "idle connection", idle)
		select {
		case err := <-over:
			must.Succeed(t, err)
		default:
			must.Succeed(t, endOf(t, over))
			return
		}
	}
	t.Error("the connection is in use as long as the wait lasts")
}

// If a notification is lost the standby waits for as long as it asked for, no longer.
func TestNotificationIsLost(t *testing.T) {
	b := newBackend(t)
	proxy, err := faultnet.Listen(b.Addr)
	must.Succeed(t, err)
	t.Cleanup(proxy.Close)
	l := grant(t, b.open(t), request("k"))
	var w networktest.Wire
	standby := openWith(t, Options{URL: "postgres://postgres:s3cret@" + proxy.Addr() + "/postgres?sslmode=disable", Dialer: w.Dial})
	const atMost = 2 * time.Second
	began := time.Now()
	over := waiting(t, &w, func() error { return standby.Wait(bounded(t), "k", atMost) })
	awaits(t, "standby that listens", func() bool {
		return b.one(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leaderrun' AND state = 'idle' AND query LIKE '%leaderrun_leases%'") == "2" && w.Answered()
	})
	must.Succeed(t, proxy.Set(faultnet.DropReplies))
	must.Succeed(t, b.open(t).Release(bounded(t), l, lease.Result{Ran: true}))
	if err := endOf(t, over); err != nil || time.Since(began) < atMost {
		t.Errorf("over after %s: %v", time.Since(began), err)
	}
	must.Succeed(t, proxy.Set(faultnet.Pass))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := standby.Acquire(ctx, request("k")); err == nil {
		t.Error("granted over a connection that has lost bytes")
	}
	grant(t, standby, request("k"))
}

func TestConnectionIsLostWhileWaiting(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, b backend){
		"terminated": func(t *testing.T, b backend) {
			b.do(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'leaderrun'")
		},
		"killed": func(_ *testing.T, b backend) { b.Kill() },
	} {
		for op, call := range map[string]func(s *Store) error{
			"wait":   func(s *Store) error { return s.Wait(bounded(t), "k", time.Minute) },
			"listen": func(s *Store) error { return s.Listen(bounded(t), "k") },
		} {
			t.Run(name+"/"+op, func(t *testing.T) {
				b := newBackend(t)
				var w networktest.Wire
				s := openWith(t, Options{URL: b.URL + "?sslmode=disable", Dialer: w.Dial})
				grant(t, s, request("k"))
				over := waiting(t, &w, func() error { return call(s) })
				lose(t, b)
				var failure *lease.StoreError
				if err := endOf(t, over); !errors.As(err, &failure) || failure.Permanent || failure.Op != op {
					t.Errorf("%v", err)
				}
				if name == "killed" {
					if err := call(s); !errors.As(err, &failure) || !failure.Refused {
						t.Errorf("no server: %v", err)
					}
					b.Restart()
				}
				awaits(t, "next wait", func() bool { return s.Wait(bounded(t), "k", 10*time.Millisecond) == nil })
			})
		}
	}
}

// Another server than the one that granted may lack data. So the holder is called before the
// key is granted, and hears the call even if it listens later.
func TestServerIsAnother(t *testing.T) {
	for name, early := range map[string]bool{"the holder listens": true, "the holder listens later": false} {
		t.Run(name, func(t *testing.T) { serverIsAnother(t, early) })
	}
}

func serverIsAnother(t *testing.T, early bool) {
	b := newBackend(t)
	var channels channels
	holder := openWith(t, Options{URL: b.URL + "?sslmode=disable", Dialer: channels.dialer((&net.Dialer{}).DialContext)})
	candidate := b.open(t)
	l := grant(t, holder, request("k"))
	called := make(chan error, 1)
	listen := func() { called <- holder.Listen(bounded(t), "k") }
	if early {
		go listen()
		awaits(t, "LISTEN", func() bool { return channels.open(holder.channelOf(keep.Call, "k")) })
	}
	// The data of a snapshot from before the grant, with the run before it.
	b.do(t, `UPDATE leaderrun_leases SET leader_id = '', term = term - 1, version = version + 1,
		state = state - 'grant' || jsonb_build_object('token', term - 1, 'server', 'another')`)
	networktest.Settles(t, candidate, request("k"), lease.SettleRestarted)
	if !early {
		go listen()
	}
	must.Succeed(t, <-called)
	networktest.ComesBack(t, holder, l)
	denied(t, candidate, request("k"))
}
