package redis

import (
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
)

// The scripts and package leasestate implement one contract, in two languages. On
// redis-server a lease lives for one millisecond more.
func TestScriptsFollowTheRules(t *testing.T) {
	t.Parallel()
	s := miniStage(t)
	leasetest.Rules(t, leasetest.Ruled{
		Store:     open(t, s.addr),
		SetTime:   s.setTime,
		Instant:   leasestate.Instant{Boot: "redis", Settle: settle.Milliseconds(), Server: "s"},
		Reset:     func(t *testing.T) { s.do(t, "FLUSHALL") },
		Histories: 100,
		Terse:     true,
	})
}
