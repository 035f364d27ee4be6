//go:build linux

package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// A round trip begins where something is sent after something was received. The
// handshake of TCP is not counted.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	files := shown(t, script.NewCertificates(t, t.TempDir()), "server")
	files["pg_hba.conf"] = "host all trusted 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
	b := agedBackend(t, files, "ssl=on")
	handshake := 3 // before 18 a server has one curve, not the one that is offered first
	if b.one(t, "SELECT current_setting('server_version_num')::int >= 180000") == "t" {
		handshake = 2
	}
	b.do(t, createTable+"; CREATE ROLE trusted LOGIN; CREATE ROLE cron LOGIN PASSWORD 'sesame'; GRANT "+rights+" ON leaderrun_leases TO trusted, cron")
	for _, c := range []struct {
		name, user, parameters string
		connect                int
	}{
		{"nothing asked", "trusted", "?sslmode=disable", 1},
		{"password", "cron", "?sslmode=disable", 3},
		{"TLS", "trusted", "", 1 + handshake},
		{"TLS and password", "cron", "", 3 + handshake},
	} {
		t.Run(c.name, func(t *testing.T) {
			var w networktest.Wire
			s := openWith(t, Options{URL: networktest.As(t, b.URL, c.user) + c.parameters, Dialer: w.Dial})
			r := request(strings.ReplaceAll(c.name, " ", "-"))
			trips := func(what string, want int, call func() error) {
				t.Helper()
				before := w.Trips()
				if err := call(); err != nil {
					t.Errorf("%s: %v", what, err)
				}
				if got := w.Trips() - before; got != want || w.Used() != 1 {
					t.Errorf("%s: %d round trips, want %d; %d connections", what, got, want, w.Used())
				}
			}
			other := b.open(t) // a new row takes more: others may be idle
			must.Succeed(t, other.Release(bounded(t), grant(t, other, r), lease.Result{}))
			r.Holder = request(r.Key).Holder
			var l lease.Lease
			trips("acquire on a new connection", c.connect+2, func() (err error) { l, err = s.Acquire(bounded(t), r); return err })
			trips("renew", 2, func() error { _, err := s.Renew(bounded(t), l); return err })
			trips("denied", 1, func() error {
				if _, err := s.Acquire(bounded(t), request(r.Key)); !errors.As(err, new(*lease.HeldError)) {
					return err
				}
				return nil
			})
			trips("wait", 2, func() error { return s.Wait(bounded(t), r.Key, 200*time.Millisecond) })
			trips("wait again", 1, func() error { return s.Wait(bounded(t), r.Key, 200*time.Millisecond) })
			trips("release", 2, func() error { return s.Release(bounded(t), l, lease.Result{Ran: true}) })
			trips("release again", 1, func() error { return s.Release(bounded(t), l, lease.Result{Ran: true}) })
		})
	}
}

// Each call dials once: not even the client dials again to cancel a failed request.
func TestEveryCallTriesOnce(t *testing.T) {
	var hangsUp networktest.Wire
	s := openWith(t, Options{URL: "postgres://cron@" + networktest.Answering(t, "") + "/db?sslmode=disable", Dialer: hangsUp.Dial})
	networktest.TryOnce(t, networktest.CallsOf(s), hangsUp.Used)
}

func TestEveryCallEndsWithItsContext(t *testing.T) {
	b := newBackend(t)
	open := func(addr string) *Store {
		return openWith(t, Options{URL: "postgres://postgres:s3cret@" + addr + "/postgres"})
	}
	stores := networktest.Silent(t, b.Addr, b.Stop, b.Cont, open)
	stores["two hosts, both silent"] = open(networktest.NeverAnswers(t) + "," + networktest.NeverAnswers(t))
	before := runtime.NumGoroutine()
	networktest.AllEndWithContext(t, stores, networktest.CallsOf)
	// With a context the client would go on for 15 seconds.
	for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before+2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before the calls:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// A TTL may be ten years, and a first attempt a sixth of that; lock_timeout ends at 24 days.
func TestLongAttempt(t *testing.T) {
	t.Parallel()
	s := newBackend(t).open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*365*24*time.Hour/6)
	defer cancel()
	if _, err := s.Acquire(ctx, request("k")); err != nil {
		t.Error(err)
	}
}

// A dead host before the living one takes only its share of the time.
func TestSecondHostAnswers(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	for name, first := range map[string]string{"refuses": "127.0.0.1:1", "is silent": networktest.NeverAnswers(t), "drops packets": networktest.PacketsVanish(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openWith(t, Options{URL: "postgres://postgres:s3cret@" + first + "," + b.Addr + "/postgres"})
			ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second) // half of it for each host
			defer cancel()
			if _, err := s.Acquire(ctx, request("is-"+strings.ReplaceAll(name, " ", "-"))); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRenewDuringWait(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	var w networktest.Wire
	s := openWith(t, Options{URL: b.URL + "?sslmode=disable", Dialer: w.Dial})
	networktest.RenewDuringWait(t, s, grant(t, s, request("k")), &w, "LISTEN")
}

// What was acknowledged is on the disk, even if the server's default does not require that.
func TestGrantOutlivesServer(t *testing.T) {
	t.Parallel()
	b := newBackend(t, "synchronous_commit=off", "wal_writer_delay=10s")
	s := b.open(t)
	for _, key := range []string{"inserted", "updated"} {
		l := grant(t, s, request(key))
		if key == "updated" {
			must.Succeed(t, s.Release(bounded(t), l, lease.Result{}))
			grant(t, s, request(key))
		}
		b.Kill()
		b.Restart()
		s = b.open(t)
		denied(t, s, request(key))
	}
}

// However a call ends, its backend is idle or gone soon.
func TestNoTransactionStaysOpen(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	l := grant(t, s, request("k"))
	b.do(t, "INSERT INTO leaderrun_leases VALUES ('leaderrun', 'bad', '', 0, NULL, NULL, 1, 'null')")
	busy := func() string {
		return b.one(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leaderrun' AND state <> 'idle'")
	}
	for name, call := range map[string]func() error{
		"acquire": func() error { _, err := s.Acquire(bounded(t), request("other")); return err },
		"denied":  func() error { _, err := s.Acquire(bounded(t), request("k")); return err },
		"bad":     func() error { _, err := s.Acquire(bounded(t), request("bad")); return err },
		"renew":   func() error { _, err := s.Renew(bounded(t), l); return err },
		"lost":    func() error { _, err := s.Renew(bounded(t), lease.Lease{Key: "k", Token: 1}); return err },
		"wait":    func() error { return s.Wait(bounded(t), "k", time.Millisecond) },
		"cut": func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_, err := s.Acquire(ctx, request("k"))
			return err
		},
	} {
		_ = call()
		awaits(t, "idle backend after "+name, func() bool { return busy() == "0" })
	}
	if n := b.one(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leaderrun'"); n > "1" {
		t.Errorf("%s connections, want 1", n)
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	l := grant(t, s, request("k"))
	waited := networktest.Start(func() error { return s.Wait(bounded(t), "k", 300*time.Millisecond) })
	connections := func() string {
		return b.one(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leaderrun'")
	}
	renew(t, s, l)
	networktest.WantClosed(t, s, networktest.CallsOf(s))
	if err := <-waited; err != nil && !errors.Is(err, network.ErrClosed) {
		t.Errorf("the wait that was under way: %v", err)
	}
	awaits(t, "end of the connections", func() bool { return connections() == "0" })
}

// A leader and a standby have as many connections as docs/stores.md says, and give some up
// when the server takes no more.
func TestConnections(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.do(t, createTable+"; CREATE ROLE cron LOGIN PASSWORD 'sesame'; GRANT "+rights+" ON leaderrun_leases TO cron")
	as := func() *Store { return openWith(t, Options{URL: networktest.As(t, b.URL, "cron")}) }
	connected := func() string {
		return b.one(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leaderrun'")
	}
	connections := func(want string) {
		t.Helper()
		awaits(t, want+" connections", func() bool { return connected() == want })
	}
	limit := func(n int) { b.do(t, fmt.Sprintf("ALTER ROLE cron CONNECTION LIMIT %d", n)) }
	leader, standby := as(), as()
	l := grant(t, leader, request("k"))
	limit(1)
	networktest.WantError(t, leader.Listen(bounded(t), "k"), false, "53300", "max_connections")
	renew(t, leader, l) // when there is no connection to listen on
	limit(-1)

	heard, listens := make(chan error, 1), bounded(t)
	for listening := false; !listening; { // the backend that was refused may still count
		go func() { heard <- leader.Listen(listens, "k") }()
		awaits(t, "answer", func() bool { return len(heard) == 1 || connected() == "2" })
		select {
		case <-heard:
		default:
			listening = true
		}
	}
	denied(t, standby, request("k"))
	waiting, stop := context.WithCancel(t.Context())
	waited := networktest.Start(func() error { return standby.Wait(waiting, "k", time.Minute) })
	connections("3")
	renew(t, leader, l) // beside the one that listens

	// The standby loses its connection, and gets no new one.
	stop()
	<-waited
	connections("2")
	limit(2)
	networktest.WantError(t, networktest.Refused(t, standby), false, "53300", "max_connections")
	limit(-1)
	for i := range 9 {
		denied(t, standby, request("k"))
		connections("2")
		if err := standby.Wait(bounded(t), "k", time.Minute); !errors.Is(err, lease.ErrNoWakeups) {
			t.Fatalf("wait after %d denials: %v", i+1, err)
		}
	}
	denied(t, standby, request("k"))
	must.Succeed(t, standby.Wait(bounded(t), "k", time.Second)) // connections are to be had again
	connections("3")

	// The leader loses the connection for renewals, and gives up the one that listens.
	limit(1)
	lost, err := leader.conns.Take(func() (*conn, error) { return nil, errors.New("none is idle") })
	must.Succeed(t, err)
	lost.quit()
	connections("2")
	networktest.WantError(t, networktest.NotRenewed(t, leader, l), false, "53300", "max_connections")
	var given *lease.StoreError
	if err := endOf(t, heard); !errors.As(err, &given) || given.Permanent || listens.Err() != nil {
		t.Errorf("the leader goes on listening: %v", err)
	}
}

// A change that waits for a replica is committed if the wait is cancelled, with a
// warning alone. It may be lost with this server, so it is not acknowledged.
func TestCancelledWaitForAReplicaIsNoAnswer(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	l := grant(t, s, request("k"))
	b.do(t, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	b.do(t, "SELECT pg_reload_conf()")
	awaits(t, "setting", func() bool { return b.one(t, "SHOW synchronous_standby_names") == "nobody" })
	renewed := make(chan error, 1)
	go func() {
		_, err := s.Renew(bounded(t), l)
		renewed <- err
	}()
	awaits(t, "wait for the replica", func() bool {
		return b.one(t, "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == "1"
	})
	networktest.WantError(t, <-renewed, false, "replica", "leave sessions alone")
	b.do(t, "ALTER SYSTEM RESET synchronous_standby_names")
	b.do(t, "SELECT pg_reload_conf()")
	renew(t, s, l)
}

// A server says why it ends an idle session (idle_session_timeout, an administrator), and
// then closes the connection: the next renewal takes another one.
func TestEndedWhileIdle(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	l := grant(t, s, request("k"))
	const ours = " FROM pg_stat_activity WHERE application_name = 'leaderrun'"
	pid := b.one(t, "SELECT pid"+ours)
	b.do(t, "SELECT pg_terminate_backend(pid)"+ours)
	awaits(t, "the end of the session", func() bool { return b.one(t, "SELECT count(*)"+ours) == "0" })
	awaits(t, "the end of its process, which closes the connection", func() bool { _, err := os.Stat("/proc/" + pid); return err != nil })
	renew(t, s, l)
}
