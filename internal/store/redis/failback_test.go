package redis

import (
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// A primary becomes the replica of a server that lacks its last grants, and then a primary
// again. Its process is the same, its data are not.
func TestSameServerWithOtherData(t *testing.T) {
	t.Parallel()
	first, second := script.StartRedis(t), script.StartRedis(t)
	a, b := backend{raw: rawClient(t, first.Addr)}, backend{raw: rawClient(t, second.Addr)}
	follow := func(b backend, of *script.RedisServer) {
		t.Helper()
		host, port, _ := strings.Cut(of.Addr, ":")
		b.do(t, "REPLICAOF", host, port)
		awaits(t, "all data", func() bool {
			info, _ := b.do(t, "INFO", "replication").(string)
			return strings.Contains(info, "master_link_status:up")
		})
		b.do(t, "REPLICAOF", "NO", "ONE")
	}
	s := open(t, first.Addr)
	l := grant(t, s, request("k"))
	must.Succeed(t, s.Release(bounded(t), l, lease.Result{Ran: true}))
	follow(b, first)
	l = grant(t, s, request("k"))
	follow(a, second)

	networktest.Settles(t, open(t, first.Addr), request("k"), lease.SettleRestarted) // a candidate that knows nothing
	networktest.ComesBack(t, s, l)
}
