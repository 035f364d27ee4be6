package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

func openSentinels(t *testing.T, addrs string) *Store {
	t.Helper()
	return openWith(t, Options{URL: "redis-sentinel://" + addrs + "/mymaster", Prefix: prefix})
}

// One sentinel that answers is enough: those that do not answer leave time for it.
func TestSentinelsInTurn(t *testing.T) {
	t.Parallel()
	set := script.StartSentinels(t, 0, script.Servers{})
	set.Sentinels[0].Kill()
	set.Sentinels[1].Stop()
	t.Cleanup(set.Sentinels[1].Cont)
	addrs := networktest.PacketsVanish(t) + "," + networktest.NeverAnswers(t) + "," + set.Addrs()
	var w networktest.Wire
	s := openWith(t, Options{URL: "redis-sentinel://" + addrs + "/mymaster", Prefix: prefix, Dialer: w.Dial})
	ctx, cancel := context.WithTimeout(t.Context(), 3*guideLimit-time.Second/4) // less than the three silent ones might take
	defer cancel()
	if _, err := s.Acquire(ctx, request("k")); !isSettling(err) {
		t.Errorf("acquire: %v", err)
	}
	l := grant(t, s, request("k"))
	before := w.Used()
	if _, err := s.Renew(bounded(t), l); err != nil || w.Used() != before {
		t.Errorf("renewed with %d new connections, want that to the sentinel that answered, %v", w.Used()-before, err)
	}
	// A sentinel's time is bounded even without a deadline.
	began := time.Now()
	if err := openSentinels(t, networktest.NeverAnswers(t)+","+set.Sentinels[2].Addr).Pass(t.Context(), "k"); err != nil || time.Since(began) > 3*guideLimit {
		t.Errorf("pass: %v after %s", err, time.Since(began))
	}
}

func isSettling(err error) bool {
	_, ok := errors.AsType[*lease.SettlingError](err)
	return ok
}

func TestRoundTripsWithSentinels(t *testing.T) {
	t.Parallel()
	set := script.StartSentinels(t, 0, script.Servers{})
	var w networktest.Wire
	s := openWith(t, Options{URL: "redis-sentinel://" + set.Addrs() + "/mymaster", Prefix: prefix, Dialer: w.Dial})
	l := grant(t, s, request("k")) // settles: two acquires
	if got := w.Trips(); w.Used() != 3 || got != 10 {
		t.Errorf("%d round trips on %d connections, want twice 2 with a sentinel, 2 greetings, 2 for each acquire", got, w.Used())
	}
	renew(t, s, l)
	if got := w.Trips(); w.Used() != 3 || got != 12 {
		t.Errorf("%d round trips on %d connections, want 1 more for the renewal, and 1 more with a sentinel", got, w.Used())
	}
	// A cancelled wait says nothing about the server.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	waiting, callOff := context.WithCancel(t.Context())
	defer callOff()
	context.AfterFunc(ctx, callOff)
	if err := s.Wait(waiting, "k", time.Minute); err == nil {
		t.Error("the wait was not called off")
	}
	if err := s.Pass(bounded(t), "k"); err != nil || strings.Count(w.Sent(), "get-master-addr-by-name") != 3 {
		t.Errorf("the sentinels were asked again, %v", err)
	}
}

// A leader keeps its connection to a sentinel, so it renews while no name can be looked up, even if
// the server has failed once.
func TestRenewedWithoutNames(t *testing.T) {
	t.Parallel()
	set := script.StartSentinels(t, 0, script.Servers{})
	var nameless atomic.Bool
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if nameless.Load() && strings.Contains(set.Addrs(), addr) { // a sentinel gives the address of the server
			return nil, &net.DNSError{Err: "server misbehaving", Name: addr, IsTemporary: true}
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	s := openWith(t, Options{URL: "redis-sentinel://" + set.Addrs() + "/mymaster", Prefix: prefix, Dialer: dial})
	l := grant(t, s, request("k"))
	nameless.Store(true)
	renew(t, s, l)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	set.Primary.Stop()
	_, err := s.Renew(ctx, l)
	set.Primary.Cont()
	networktest.WantError(t, err, false, "no answer in time", "")
	renew(t, s, l)
	renew(t, s, l)
}

// A kept connection may be broken. The question changes nothing, so the only sentinel is asked again,
// and the leader loses no attempt.
func TestKeptConnectionToASentinelIsBroken(t *testing.T) {
	t.Parallel()
	server := script.StartRedis(t)
	for name, breaks := range map[string]func(*stallConn){
		"closed":          func(c *stallConn) { _ = c.Close() },
		"packets dropped": func(c *stallConn) { c.stalled.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sentinel := speaking(t, greeting, func() string { return nameOf(t, server.Addr) })
			var last atomic.Pointer[stallConn] // to the sentinel
			dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
				opened, err := new(net.Dialer).DialContext(ctx, network, addr)
				c := &stallConn{Conn: opened} // as with TLS, the client cannot see whether it is open
				if addr == sentinel {
					last.Store(c)
				}
				return c, err
			}
			s := openWith(t, Options{URL: "redis-sentinel://" + sentinel + "/mymaster", Prefix: prefix, Dialer: dial})
			l := grant(t, s, request(name))
			breaks(last.Load())
			renew(t, s, l)
		})
	}
}

// stallConn can lose what is sent.
type stallConn struct {
	net.Conn
	stalled atomic.Bool
}

func (c *stallConn) Write(p []byte) (int, error) {
	if c.stalled.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// Only a call that a node has redirected is sent again. If a call may have been carried
// out, only the caller repeats it.
func TestCallsByWayOfGuidesAreSentOnce(t *testing.T) {
	hangsUp := networktest.Answering(t, greeting, "")
	for _, url := range []string{
		"redis-sentinel://" + naming(t, networktest.Answering(t, greeting, greeting)) + "," + naming(t, networktest.Answering(t, greeting, greeting)) + "/mymaster",
		"redis-cluster://" + speaking(t, clusterGreeting, func() string { return "-MOVED 1 " + hangsUp + "\r\n" }) + "," + hangsUp,
	} {
		var w networktest.Wire
		s := openWith(t, Options{URL: url, Prefix: prefix, Dialer: w.Dial})
		all := calls(s)
		delete(all, "listen") // it has its own connection, where the answer to ROLE would look like a call
		for op, call := range all {
			before := strings.Count(w.Sent(), ":{leaderrun:leader:k}\r\n")
			networktest.WantError(t, call(bounded(t)), false, "it closed the connection", "look at its log")
			keys := 3 // with braces
			switch op {
			case "wait":
				keys = 1
			case "list":
				keys = 0
			}
			if sent := strings.Count(w.Sent(), ":{leaderrun:leader:k}\r\n") - before; sent != keys {
				t.Errorf("%s: %d keys sent, want %d once", op, sent, keys)
			}
		}
	}
}

// TLS reaches the sentinels and the server.
func TestSentinelsOverTLS(t *testing.T) {
	t.Parallel()
	certs := script.NewCertificates(t, t.TempDir())
	set := script.StartSentinels(t, 0, script.Servers{TLS: certs})
	url := "rediss-sentinel://" + set.Addrs() + "/mymaster/2"
	s := openWith(t, Options{URL: url + "?ca=" + certs.File("ca.pem"), Prefix: prefix})
	must.Succeed(t, s.Release(bounded(t), grant(t, s, request("k")), lease.Result{}))
	refused := openWith(t, Options{URL: url, Prefix: prefix})
	err := networktest.Refused(t, refused)
	for range 9 { // until each sentinel has answered in time
		if store := new(lease.StoreError); errors.As(err, &store) && store.Permanent {
			break
		}
		err = networktest.Refused(t, refused)
	}
	networktest.WantError(t, err, true, "sentinel at 127.0.0.1:", "ca=FILE")
	if !strings.Contains(err.Error(), "not signed by a CA that this host trusts (3 were asked)") {
		t.Errorf("says %v", err)
	}
}

func TestSentinelsHelpNot(t *testing.T) {
	redis := script.StartRedis(t)
	replica := script.StartRedis(t, "--replicaof", "127.0.0.1", "1")
	dead := script.StartRedis(t)
	dead.Kill()
	locked := networktest.Answering(t, "-NOAUTH HELLO must be called with the client already authenticated\r\n", "-NOAUTH Authentication required.\r\n")
	unknown := networktest.Answering(t, greeting, "*-1\r\n")
	for _, c := range []struct {
		name, addrs        string
		permanent, refused bool
		says, hint         string
	}{
		{"unknown name", unknown, true, false, `sentinel at ` + unknown + `: it knows no server named "mymaster"`, "SENTINEL MASTERS"},
		{"unknown to all", unknown + "," + networktest.Answering(t, greeting, "*-1\r\n"), true, false, `it knows no server named "mymaster" (2 were asked)`, "SENTINEL MASTERS"},
		{"unknown to one", unknown + "," + dead.Addr, false, false, `it knows no server named "mymaster"`, "SENTINEL MASTERS"},
		{"a server", redis.Addr, true, false, "sentinel at " + redis.Addr + ": unknown command 'SENTINEL'", "name the sentinels"},
		{"locked", locked, true, false, "NOAUTH", "sentinel_password=PASSWORD"},
		{"nobody", dead.Addr, false, true, "sentinel at " + dead.Addr + ": connection refused", "start it"},
		{"nobody anywhere", dead.Addr + "," + dead.Addr + "," + dead.Addr, false, true, "connection refused (3 were asked)", "start it"},
		{"a dead server", naming(t, dead.Addr), false, false, "redis at " + dead.Addr + ": connection refused", "another takes its place"},
		{"a replica", naming(t, replica.Addr), false, false, "redis at " + replica.Addr + ": a sentinel named it, but it is a replica", "failover"},
		{"an empty answer", networktest.Answering(t, greeting, "*0\r\n"), false, false, "something else than a sentinel does", "look at its log"},
		{"numbers", networktest.Answering(t, greeting, "*2\r\n:1\r\n:2\r\n"), false, false, "something else than a sentinel does", "look at its log"},
		{"no host", networktest.Answering(t, greeting, "*2\r\n$0\r\n\r\n$4\r\n6379\r\n"), false, false, "something else than a sentinel does", "look at its log"},
		{"a text", networktest.Answering(t, greeting, "+127.0.0.1:6379\r\n"), false, false, "something else than a sentinel does", "look at its log"},
		{"no right", networktest.Answering(t, greeting, "-NOPERM this user has no permissions to run the 'sentinel|get-master-addr-by-name' command\r\n"), true, false, "NOPERM", "+sentinel|get-master-addr-by-name +hello"},
		{"a password", networktest.Answering(t, greeting, "-ERR not sesame2\r\n"), false, false, "not ***", ""},
		{"an error", networktest.Answering(t, greeting, "-IDONTKNOW what\x1b[2J\r\n"), false, false, "IDONTKNOW what", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openWith(t, Options{URL: "redis-sentinel://" + c.addrs + "/mymaster?sentinel_password=sesame2", Prefix: prefix})
			for op, call := range calls(s) {
				err := call(bounded(t))
				if errors.Is(err, lease.ErrNoWakeups) && c.permanent {
					continue
				}
				networktest.WantError(t, err, c.permanent, c.says, c.hint)
				if failure, _ := errors.AsType[*lease.StoreError](err); failure.Refused != c.refused || failure.Op != op {
					t.Errorf("refused %t, op %s: %v", failure.Refused, failure.Op, err)
				}
			}
		})
	}
}

// naming starts a sentinel that names addr.
func naming(t *testing.T, addr string) string {
	return networktest.Answering(t, greeting, nameOf(t, addr))
}

// nameOf returns a sentinel's answer that names the server.
func nameOf(t *testing.T, addr string) string {
	host, port, err := net.SplitHostPort(addr)
	must.Succeed(t, err)
	return fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(host), host, len(port), port)
}

// Sentinels that were started again without their settings know no name, but somebody will mend
// that: candidates that had a server go on standing by.
func TestSentinelsHaveLostTheirSettings(t *testing.T) {
	server := script.StartRedis(t)
	var lost atomic.Bool
	sentinel := speaking(t, greeting, func() string {
		if lost.Load() {
			return "*-1\r\n"
		}
		return nameOf(t, server.Addr)
	})
	s := openSentinels(t, sentinel)
	grant(t, s, request("k"))
	server.Kill()
	lost.Store(true)
	_ = networktest.Refused(t, s) // the connection has ended
	networktest.WantError(t, networktest.Refused(t, s), false, "knows no server named", "SENTINEL MONITOR")
	networktest.WantError(t, networktest.Refused(t, openSentinels(t, sentinel)), true, "knows no server named", "SENTINEL MASTERS")
}

// A sentinel that is outdated is not believed for long.
func TestAnotherSentinelIsAsked(t *testing.T) {
	replica := script.StartRedis(t, "--replicaof", "127.0.0.1", "1")
	server := script.StartRedis(t)
	grant(t, openSentinels(t, naming(t, replica.Addr)+","+naming(t, server.Addr)), request("k"))
}

// Calls end with their contexts, however many sentinels or nodes do not answer.
func TestGuidesEndWithTheCall(t *testing.T) {
	t.Parallel()
	black, frozen := networktest.PacketsVanish(t), networktest.NeverAnswers(t)
	for _, url := range []string{
		"redis-sentinel://" + black + "/n", "redis-sentinel://" + frozen + "/n",
		"redis-sentinel://" + black + "," + frozen + "," + black + "," + frozen + "/n", "rediss-sentinel://" + frozen + "/n",
		"redis-cluster://" + black + "," + frozen, "rediss-cluster://" + frozen,
	} {
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			checks := make(chan func())
			for op := range calls(nil) {
				call := calls(openWith(t, Options{URL: url, Prefix: prefix}))[op]
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					checks <- ends(t, ctx, op, call, "no answer in time")
					cancel()
					ctx, cancel = context.WithCancel(t.Context())
					time.AfterFunc(20*time.Millisecond, cancel)
					checks <- ends(t, ctx, op, call, "given up before an answer came")
				}()
			}
			for range 2 * len(calls(nil)) {
				(<-checks)()
			}
		})
	}
}

// ends makes a call, and returns the check that it ended soon after its context. One
// sentinel's share of the time may end earlier.
func ends(t *testing.T, ctx context.Context, op string, call func(context.Context) error, says string) (check func()) {
	began := time.Now()
	err := call(ctx)
	took := time.Since(began)
	return func() {
		t.Helper()
		if took > time.Second {
			t.Errorf("%s returned after %s", op, took)
		}
		networktest.WantError(t, err, false, says, "")
	}
}

// A server that becomes a replica is not used any more, even if there are connections to it.
func TestServerIsDemoted(t *testing.T) {
	server, next := script.StartRedis(t), script.StartRedis(t)
	s := openSentinels(t, naming(t, server.Addr)+","+naming(t, next.Addr))
	l := grant(t, s, request("k"))
	b := backend{raw: rawClient(t, server.Addr)}
	b.do(t, "REPLICAOF", "127.0.0.1", "1")
	networktest.WantError(t, networktest.NotRenewed(t, s, l), false, "redis at "+server.Addr+": READONLY", "failover")
	networktest.ComesBack(t, s, l)
}
