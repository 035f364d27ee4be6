package file

import (
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
)

func TestRules(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	networktest.Rules(t, s, &s.Verbs, leasestate.Instant{Boot: s.boot}, 40)
}
