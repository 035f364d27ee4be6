//go:build linux

package mysql

import (
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
)

func TestRules(t *testing.T) {
	t.Parallel()
	s := newBackend(t).open(t)
	networktest.Rules(t, s, &s.Verbs, leasestate.Instant{Boot: boot, Settle: settle, Server: "s"}, 20)
}
