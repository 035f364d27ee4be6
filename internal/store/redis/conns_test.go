package redis

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// The store's dial looks up the server's name, within the call's time, and nothing else does: a
// server of names may not answer for seconds.
func TestOnlyTheDialLooksUpNames(t *testing.T) {
	const alone = "LOOKS_UP_NAMES_ALONE"
	if os.Getenv(alone) == "" { // in its own process: calls that another test gave up may read the resolver
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		again.Env = append(os.Environ(), alone+"=1")
		if out, err := again.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("a name was looked up")
		return nil, errors.ErrUnsupported
	}}
	server := script.StartRedis(t)
	s := openWith(t, Options{URL: "redis://redis.example", Prefix: prefix, Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Addr)
	}})
	if err := s.Pass(bounded(t), "k"); err != nil {
		t.Error(err)
	}
}

// A round trip begins where something is sent after something was received. The
// handshake of TCP is not counted.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	certs := script.NewCertificates(t, t.TempDir())
	for _, c := range []struct {
		name, user, path string
		args             []string
		first            int
	}{
		{"plain", "", "", nil, 3},
		{"password", ":sesame@", "/0", []string{"--requirepass", "sesame"}, 3},
		{"user", "cron:sesame@", "", user("cron on >sesame ~* +@all"), 3},
		{"database", "", "/3", nil, 4},
		{"TLS", "", "", nil, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := script.StartRedis(t, c.args...)
			url := "redis://" + c.user + server.Addr + c.path
			if c.name == "TLS" {
				url = "rediss://" + certs.ServeTLS(t, rawClient(t, server.Addr), "server") + "?ca=" + certs.File("ca.pem")
			}
			var w networktest.Wire
			s := openWith(t, Options{URL: url, Prefix: prefix, Dialer: w.Dial})
			l := grant(t, s, request("k")) // settles: two acquires
			if got := w.Trips(); w.Used() != 1 || got != c.first+2 {
				t.Errorf("%d round trips on %d connections, want %d for the first acquire and 2 for the second", got, w.Used(), c.first)
			}
			before := w.Trips()
			denied(t, s, request("k"))
			if got := w.Trips() - before; got != 1 {
				t.Errorf("%d round trips for a denial", got)
			}
			before = w.Trips()
			renew(t, s, l)
			must.Succeed(t, s.Release(bounded(t), l, lease.Result{Ran: true}))
			if got := w.Trips() - before; got != 2 || w.Used() != 1 {
				t.Errorf("%d round trips for a renewal and a release on a warm connection, %d connections", got, w.Used())
			}
			for _, word := range []string{"CLIENT", "client", "PING", "ping", "evalsha"} {
				if strings.Contains(w.Sent(), word+"\r\n") {
					t.Errorf("%s was sent", word)
				}
			}
		})
	}
}

func TestEveryCallTriesOnce(t *testing.T) {
	t.Parallel()
	var hangsUp networktest.Wire
	s := openWith(t, Options{URL: "redis://" + networktest.Answering(t, greeting, ""), Prefix: prefix, Dialer: hangsUp.Dial})
	networktest.TryOnce(t, calls(s), hangsUp.Used)
}

func TestEveryCallEndsWithItsContext(t *testing.T) {
	frozen := script.StartRedis(t)
	networktest.AllEndWithContext(t, networktest.Silent(t, frozen.Addr, frozen.Stop, frozen.Cont, func(addr string) *Store { return open(t, addr) }), calls)
}

// calls returns the calls that send requests to the server.
func calls(s *Store) networktest.Calls {
	all := networktest.CallsOf(s)
	all["pass"] = func(ctx context.Context) error { return s.Pass(ctx, "k") }
	return all
}

func TestRenewDuringWait(t *testing.T) {
	b := realBackend(t)
	var w networktest.Wire
	s := openWith(t, Options{URL: "redis://" + b.addr, Prefix: prefix, Dialer: w.Dial})
	networktest.RenewDuringWait(t, s, grant(t, s, request("k")), &w, "BLPOP")
}

// A distant server has to answer early enough that nothing came.
func TestWaitLeavesTimeForTheAnswer(t *testing.T) {
	b := realBackend(t)
	for atMost, asked := range map[time.Duration]float64{time.Minute: 59.75, time.Second: 0.9} {
		var w networktest.Wire
		s := openWith(t, Options{URL: "redis://" + b.addr, Prefix: prefix, Dialer: w.Dial})
		ctx, cancel := context.WithCancel(t.Context())
		waited := networktest.Start(func() error { return s.Wait(ctx, "k", atMost) })
		for !strings.Contains(w.Sent(), "BLPOP") {
			select {
			case err := <-waited:
				t.Fatalf("it has not asked: %v", err)
			case <-time.After(time.Millisecond):
			}
		}
		cancel()
		<-waited
		seconds := regexp.MustCompile(`[0-9]+\.[0-9]+`).FindString(w.Sent())
		if got, err := strconv.ParseFloat(seconds, 64); err != nil || got > asked || got < asked-0.5 { // what it took until then
			t.Errorf("a wait of %s is one of another time than %.3f s for the server: %q", atMost, asked, w.Sent())
		}
	}
}

// A program at a wrong port may send without end.
func TestEndlessAnswer(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	addr := networktest.Serve(t, func(c net.Conn) {
		for text := bytes.Repeat([]byte("x"), 64<<10); ; {
			n, err := c.Write(text)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	networktest.WantError(t, networktest.Refused(t, open(t, addr)), false, "no Redis: it answers with more than 16 MiB", "check that the store's URL names a Redis server")
	if got := sent.Load(); got > 32<<20 {
		t.Errorf("%d bytes were sent, and all but the kernel's buffers were read", got)
	}
}

// The client must not log to standard error. A second process shows what it writes at its
// start and at a failure.
func TestNothingIsLogged(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^(TestEveryCallTriesOnce|TestUnreachable)$")
	again.Stderr = &stderr
	if err := again.Run(); err != nil || stderr.Len() > 0 {
		t.Errorf("error %v, standard error:\n%s", err, &stderr)
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	b := realBackend(t)
	s := open(t, b.addr)
	grant(t, s, request("k"))
	waited := networktest.Start(func() error { return s.Wait(bounded(t), "k", 300*time.Millisecond) })
	awaits(t, "wait", func() bool { return b.waiting(t) == 1 })
	networktest.WantClosed(t, s, calls(s))
	must.Succeed(t, <-waited) // the wait that was under way
	awaits(t, "end of all connections but the test's own", func() bool { return strings.Count(b.do(t, "CLIENT", "LIST").(string), "\n") == 1 })
}

// A leader and a standby have as many connections as docs/stores.md says, and give some up
// when the server takes no more.
func TestConnections(t *testing.T) {
	t.Parallel()
	b := realBackend(t)
	clients := func() int { return strings.Count(b.do(t, "CLIENT", "LIST").(string), "\n") - 1 } // but this one
	leader, standby := open(t, b.addr), open(t, b.addr)
	l := grant(t, leader, request("k"))
	b.do(t, "CONFIG", "SET", "maxclients", "2")
	var full *lease.StoreError
	if err := leader.Listen(bounded(t), "k"); !errors.As(err, &full) || full.Permanent || !strings.Contains(err.Error(), "max number of clients") {
		t.Errorf("the leader listens at a server that is full: %v", err)
	}
	renew(t, leader, l) // when there is no connection to listen on
	b.do(t, "CONFIG", "SET", "maxclients", "100")

	heard := listening(t, b, leader, "k")
	denied(t, standby, request("k"))
	waiting, stop := context.WithCancel(t.Context())
	waited := networktest.Start(func() error { return standby.Wait(waiting, "k", time.Minute) })
	awaits(t, "the standby waits", func() bool { return b.waiting(t) == 2 })
	if n := clients(); n != 3 {
		t.Errorf("%d connections of a leader and a standby, want 2 and 1", n)
	}
	b.do(t, "CONFIG", "SET", "maxclients", "1")
	renew(t, leader, l) // at a server that is full

	// The standby loses its connection, and gets no new one.
	stop()
	<-waited
	if _, err := standby.Acquire(bounded(t), request("k")); !errors.As(err, &full) || !strings.Contains(err.Error(), "max number of clients") {
		t.Errorf("a standby at a server that is full: %v", err)
	}
	b.do(t, "CONFIG", "SET", "maxclients", "100")
	for i := range 9 {
		denied(t, standby, request("k"))
		awaits(t, "the standby has no connection", func() bool { return clients() == 2 })
		if err := standby.Wait(bounded(t), "k", time.Minute); !errors.Is(err, lease.ErrNoWakeups) {
			t.Fatalf("wait after %d denials: %v", i+1, err)
		}
	}
	denied(t, standby, request("k"))
	must.Succeed(t, standby.Wait(bounded(t), "k", 10*time.Millisecond)) // connections are to be had again
	if n := clients(); n != 3 {
		t.Errorf("%d connections, want 3", n)
	}

	// The leader loses the connection for renewals, and gives up the one that listens.
	b.do(t, "CONFIG", "SET", "maxclients", "1")
	leader.servers.conns.Drop(func(*conn) bool { return true })
	if _, err := leader.Renew(bounded(t), l); !errors.As(err, &full) {
		t.Errorf("renewal at a server that is full: %v", err)
	}
	if err := endOf(t, heard); !errors.As(err, &full) || full.Permanent {
		t.Errorf("the leader goes on listening: %v", err)
	}
}
