//go:build linux

package kubernetes

import (
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
)

func TestRules(t *testing.T) {
	t.Parallel()
	s := newBackend(t).open(t)
	networktest.RulesByClock(t, brief{s}, s.Store, leasestate.Instant{Boot: boot, Settle: settle, Apart: apart}, 10)
}
