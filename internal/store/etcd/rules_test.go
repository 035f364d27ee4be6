//go:build linux

package etcd

import (
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
)

func TestRules(t *testing.T) {
	t.Parallel()
	s := newBackend(t).open(t)
	networktest.RulesByClock(t, s, s.Store, leasestate.Instant{Boot: boot, Settle: settle, Server: "s", Apart: apart}, 30)
}
