package redis

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// standstill lets a store's next script reach a primary that stood still for so long that the
// sentinels have replaced it. The primary does not know, and answers as before.
type standstill struct {
	set  *script.SentinelSet
	next atomic.Pointer[func()] // called before the next script is sent
}

func (s *standstill) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	return standstillConn{c, s}, err
}

type standstillConn struct {
	net.Conn
	s *standstill
}

func (c standstillConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("\r\neval\r\n")) {
		if next := c.s.next.Swap(nil); next != nil {
			(*next)()
		}
	}
	return c.Conn.Write(p)
}

// atNextScript prepares the standstill. Before it ends another store is granted the key k.
func (s *standstill) atNextScript(t *testing.T) (other *lease.Lease) {
	other = new(lease.Lease)
	next := func() {
		s.set.Primary.Stop()
		var watchers []backend
		for _, watcher := range s.set.Sentinels {
			b := backend{raw: rawClient(t, watcher.Addr)}
			watchers = append(watchers, b)
			awaits(t, "another primary", func() bool {
				return strings.Contains(fmt.Sprint(b.do(t, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster")), strconv.Itoa(s.set.Replicas[0].Port))
			})
		}
		for _, b := range watchers { // they wait four periods before they make a server that is back a replica
			b.do(t, "SENTINEL", "DEBUG", "PUBLISH-PERIOD", "60000")
		}
		*other = grant(t, openSentinels(t, s.set.Addrs()), request("k"))
		s.set.Primary.Cont()
	}
	s.next.Store(&next)
	return other
}

func (s *standstill) open(t *testing.T) *Store {
	return openWith(t, Options{URL: "redis-sentinel://" + s.set.Addrs() + "/mymaster", Prefix: prefix, Dialer: s.dial})
}

// A candidate asks a sentinel, and then the server that it named, which is replaced meanwhile.
func TestReplacedServerGrantsNothing(t *testing.T) {
	t.Parallel()
	still := standstill{set: script.StartSentinels(t, 1, script.Servers{})}
	s := openSentinels(t, still.set.Addrs())
	must.Succeed(t, s.Release(bounded(t), grant(t, s, request("k")), lease.Result{})) // so that the key need not settle
	s, other, r := still.open(t), still.atNextScript(t), request("k")
	_, err := s.Acquire(bounded(t), r)
	networktest.WantError(t, err, false, "redis at "+still.set.Primary.Addr+": a sentinel named another since", hintFailover)
	if held := denied(t, s, r); held.Token != other.Token {
		t.Errorf("afterwards: %+v, want the lease %+v", held, other)
	}
}

// The server that takes its place does not have the lease.
func TestReplacedServerRenewsNothing(t *testing.T) {
	t.Parallel()
	still := standstill{set: script.StartSentinels(t, 1, script.Servers{})}
	still.set.CutOff()
	s := still.open(t)
	l := grant(t, s, request("k"))
	still.atNextScript(t)
	networktest.WantError(t, networktest.NotRenewed(t, s, l), false, "redis at "+still.set.Primary.Addr+": a sentinel named another since", hintFailover)
	networktest.Lost(t, s, l) // at the server that took its place
}
