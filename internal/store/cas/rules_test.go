package cas

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
)

func TestRules(t *testing.T) {
	s := newTable().open()
	var now int64
	s.Now = func() time.Duration { return time.Duration(now) * time.Millisecond }
	s.Wall = func(time.Time) int64 { return now / 1000 * 1000 }
	leasetest.Rules(t, leasetest.Ruled{
		Store:     s,
		SetTime:   func(ms int64) { now = ms },
		Instant:   leasestate.Instant{Boot: s.Boot, Settle: s.Settle, Server: "s", Apart: s.Apart},
		Unit:      1000,
		Histories: 60,
	})
}
