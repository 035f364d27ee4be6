package redis

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

func openCluster(t *testing.T, addrs string) *Store {
	t.Helper()
	return openWith(t, Options{URL: "redis-cluster://" + addrs, Prefix: prefix})
}

func TestCluster(t *testing.T) {
	t.Parallel()
	// The rights that the hint names are enough in a cluster, too.
	c := script.StartCluster(t, false, script.Servers{Args: slices.Concat(
		user("cron on >sesame ~leaderrun:* -@all "+rights+" "+listing), user("few on >sesame ~leaderrun:* -@all "+rights))})
	for name, test := range map[string]func(*testing.T, *script.Cluster){
		"round trips": roundTripsInACluster, "a slot moves": slotMoves, "contract": contractOnACluster,
		"keys": keysOfACluster,
	} {
		t.Run(name, func(t *testing.T) { test(t, c) })
	}
}

func roundTripsInACluster(t *testing.T, c *script.Cluster) {
	node, i := c.Of(t, prefix+":leader:trips")
	for _, tt := range []struct {
		name, addr   string
		dials, trips int
	}{
		{"by way of the right node", node.Addr, 1, 7},
		{"by way of another", c.Primaries[(i+1)%3].Addr, 2, 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, node := range c.Primaries {
				must.Succeed(t, rawClient(t, node.Addr).FlushAll(t.Context()).Err())
			}
			var w networktest.Wire
			s := openWith(t, Options{URL: "redis-cluster://" + tt.addr, Prefix: prefix, Dialer: w.Dial})
			l := grant(t, s, request("trips")) // settles: two acquires
			if got := w.Trips(); w.Used() != tt.dials || got != tt.trips {
				t.Errorf("%d round trips on %d connections, want %d on %d", got, w.Used(), tt.trips, tt.dials)
			}
			elsewhere := "trips"
			for n := node; n == node; n, _ = c.Of(t, prefix+":leader:"+elsewhere) {
				elsewhere += "x"
			}
			other := grant(t, s, request(elsewhere))
			warm := func(ls ...lease.Lease) int {
				before := w.Trips()
				for _, l := range ls {
					renew(t, s, l)
				}
				return w.Trips() - before
			}
			warm(l, other)
			if got := warm(l, other, l); got != 3 {
				t.Errorf("%d round trips for 3 renewals", got)
			}
		})
	}
}

// While a slot moves nothing is granted; before and after that all works.
func slotMoves(t *testing.T, c *script.Cluster) {
	from, i := c.Of(t, prefix+":leader:moves")
	to := c.Primaries[(i+1)%3]
	s := openCluster(t, c.Addrs())
	l := grant(t, s, request("moves"))

	source, target := backend{raw: rawClient(t, from.Addr)}, backend{raw: rawClient(t, to.Addr)}
	slot := source.do(t, "CLUSTER", "KEYSLOT", s.leaseKey("moves"))
	sourceID, targetID := source.do(t, "CLUSTER", "MYID"), target.do(t, "CLUSTER", "MYID")
	target.do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", sourceID)
	source.do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", targetID)
	networktest.WantError(t, networktest.NotRenewed(t, s, l), false, "TRYAGAIN", "CLUSTER SETSLOT")
	for _, key := range source.do(t, "CLUSTER", "GETKEYSINSLOT", slot, 10).([]any) {
		source.do(t, "MIGRATE", "127.0.0.1", to.Port, key, 0, 5000)
	}
	for range 3 {
		networktest.WantError(t, networktest.NotRenewed(t, s, l), false, "ASK", "CLUSTER SETSLOT")
		_, err := openCluster(t, c.Addrs()).Acquire(bounded(t), request("moves"))
		networktest.WantError(t, err, false, "ASK", "CLUSTER SETSLOT")
	}
	for _, b := range []backend{target, source} {
		b.do(t, "CLUSTER", "SETSLOT", slot, "NODE", targetID)
	}
	for range 3 {
		networktest.GoesOn(t, s, l)
	}
}

func TestClusterOverTLS(t *testing.T) {
	t.Parallel()
	certs := script.NewCertificates(t, t.TempDir())
	c := script.StartCluster(t, false, script.Servers{TLS: certs})
	s := openWith(t, Options{URL: "rediss-cluster://" + c.Primaries[0].Addr + "?ca=" + certs.File("ca.pem"), Prefix: prefix})
	for i := range 5 {
		must.Succeed(t, s.Release(bounded(t), grant(t, s, request(fmt.Sprint("k", i))), lease.Result{}))
	}
}

// Several servers that are no cluster would all grant the same lease, so they are refused.
func TestNoCluster(t *testing.T) {
	one, other := script.StartRedis(t), script.StartRedis(t)
	dead := script.StartRedis(t)
	dead.Kill()
	for _, c := range []struct {
		addrs              string
		permanent, refused bool
		says, hint         string
	}{
		{one.Addr + "," + other.Addr, true, false, "redis at " + one.Addr + ": it is no node of a cluster (2 were asked)", "redis://"},
		{one.Addr, true, false, "it is no node of a cluster", "redis://"},
		{dead.Addr + "," + one.Addr, false, false, "it is no node of a cluster", "redis://"},
		{dead.Addr, false, true, "connection refused", "start it"},
		{networktest.Answering(t, greeting, greeting), true, false, "it is no node of a cluster", "redis://"},
		{networktest.Answering(t, greeting, "+OK\r\n"), false, false, "no Redis: ", "look at its log"},
	} {
		t.Run(c.addrs, func(t *testing.T) {
			err := networktest.Refused(t, openCluster(t, c.addrs))
			networktest.WantError(t, err, c.permanent, c.says, c.hint)
			if failure, _ := errors.AsType[*lease.StoreError](err); failure.Refused != c.refused {
				t.Errorf("refused %t: %v", failure.Refused, err)
			}
		})
	}
}

const clusterGreeting = "*2\r\n$4\r\nmode\r\n$7\r\ncluster\r\n"

// Nodes that name each other again and again are not followed for ever.
func TestNodesDisagree(t *testing.T) {
	var asked atomic.Int64
	var other string
	moved := func() string { asked.Add(1); return "-MOVED 1 " + other + "\r\n" }
	one := speaking(t, clusterGreeting, moved)
	other = speaking(t, clusterGreeting, func() string { asked.Add(1); return "-MOVED 1 " + one + "\r\n" })
	networktest.WantError(t, networktest.Refused(t, openCluster(t, one)), false, "MOVED 1 ", "CLUSTER NODES")
	if n := asked.Load(); n != 1+1+maxMoves {
		t.Errorf("%d calls", n)
	}
	asked.Store(0)
	if networktest.WantError(t, networktest.Refused(t, open(t, one)), true, "MOVED 1 ", "redis-cluster://HOST"); asked.Load() != 1 {
		t.Errorf("%d calls of a single server", asked.Load())
	}
}

// A node with outdated slots is not believed for long.
func TestAnotherNodeIsAsked(t *testing.T) {
	b := realBackend(t)
	dead := script.StartRedis(t)
	dead.Kill()
	moved := func(to string) string {
		return speaking(t, clusterGreeting, func() string { return "-MOVED 1 " + to + "\r\n" })
	}
	s := openCluster(t, moved(dead.Addr)+","+moved(b.addr))
	networktest.WantError(t, networktest.Refused(t, s), false, "redis at "+dead.Addr+": connection refused", "another takes its place")
	grant(t, s, request("k"))
}

// speaking is a server that answers HELLO with one text and all else with another.
func speaking(t *testing.T, hello string, other func() string) string {
	t.Helper()
	return networktest.Serve(t, func(c net.Conn) {
		buf := make([]byte, 64<<10)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			answer := hello
			if !strings.Contains(strings.ToUpper(string(buf[:min(n, 20)])), "HELLO") {
				answer = other()
			}
			_, _ = c.Write([]byte(answer))
		}
	})
}

func contractOnACluster(t *testing.T, c *script.Cluster) {
	raw := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{c.Primaries[0].Addr}, Protocol: 2})
	t.Cleanup(func() { _ = raw.Close() })
	h := harness(backend{raw: raw})
	h.Unit = 200 * time.Millisecond
	var opened atomic.Int64 // whichever node is asked first
	h.Open = func(t *testing.T) lease.Store {
		return openCluster(t, "cron:sesame@"+c.Primaries[opened.Add(1)%3].Addr)
	}
	h.Wipe = func(t *testing.T) {
		for _, node := range c.Primaries {
			must.Succeed(t, rawClient(t, node.Addr).FlushAll(t.Context()).Err())
		}
	}
	leasetest.Run(t, h)
}

// Nodes may be set not to name a host: then the others are where the one is that was asked. Or
// they name hosts that they do not know.
func TestClusterNamesNoHosts(t *testing.T) {
	t.Parallel()
	c := script.StartCluster(t, false, script.Servers{})
	for _, named := range []string{"unknown-endpoint", "hostname"} {
		t.Run(named, func(t *testing.T) {
			for _, node := range c.Primaries {
				if err := rawClient(t, node.Addr).ConfigSet(t.Context(), "cluster-preferred-endpoint-type", named).Err(); err != nil {
					t.Skip(err) // Redis 6
				}
			}
			s := openCluster(t, c.Primaries[0].Addr)
			var keys []string
			for i := range 5 {
				key := fmt.Sprint(named, i)
				keys = append(keys, key)
				l := grant(t, s, request(key))
				renew(t, s, l)
			}
			found, err := s.Keys(bounded(t))
			found = slices.DeleteFunc(found, func(key string) bool { return !strings.HasPrefix(key, named) })
			if err != nil || !slices.Equal(found, keys) {
				t.Errorf("%q, want %q: %v", found, keys, err)
			}
		})
	}
}

// If a node without a replica dies, its keys are unavailable, and those of the others are not if the
// cluster is configured to go on without it.
func TestClusterLosesANode(t *testing.T) {
	t.Parallel()
	c := script.StartCluster(t, false, script.Servers{Args: []string{"--cluster-require-full-coverage", "no"}})
	lost, i := c.Of(t, prefix+":leader:k")
	other := ""
	for n := 0; other == ""; n++ {
		if node, _ := c.Of(t, fmt.Sprint(prefix, ":leader:o", n)); node != lost {
			other = fmt.Sprint("o", n)
		}
	}
	s := openCluster(t, lost.Addr+","+c.Primaries[(i+1)%3].Addr+","+c.Primaries[(i+2)%3].Addr)
	l, kept := grant(t, s, request("k")), grant(t, s, request(other))
	lost.Kill()
	networktest.WantError(t, networktest.NotRenewed(t, s, l), false, "redis at "+lost.Addr+": ", "") // the warm connection
	for range 4 {                                                                                    // whichever node is asked first
		err := networktest.NotRenewed(t, s, l)
		networktest.WantError(t, err, false, "redis at "+lost.Addr+": connection refused", "another takes its place")
		if failure, _ := errors.AsType[*lease.StoreError](err); failure.Refused {
			t.Errorf("%v: refused", err)
		}
		renew(t, s, kept)
	}
}
