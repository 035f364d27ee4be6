package networktest

import (
	"context"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
	"github.com/leaderrun/leaderrun/internal/store/cas"
)

// Rules compares a store with package leasestate. verbs are the store's own: the test sets
// the time of each change.
func Rules(t *testing.T, s lease.Store, verbs *cas.Verbs, instant leasestate.Instant, histories int64) {
	t.Helper()
	var now int64
	change := *verbs
	*verbs = func(ctx context.Context, c cas.Change) (lease.Lease, error) {
		c.Apply = leasetest.At(&now, c.Apply)
		return change(ctx, c)
	}
	leasetest.Rules(t, leasetest.Ruled{Store: s, SetTime: func(ms int64) { now = ms }, Instant: instant, Histories: histories})
}

// RulesByClock is Rules for a store whose clocks the test sets: config is that of s.
func RulesByClock(t *testing.T, s lease.Store, config *cas.Store, instant leasestate.Instant, histories int64) {
	t.Helper()
	var now int64
	config.Now = func() time.Duration { return time.Duration(now) * time.Millisecond }
	config.Wall = func(time.Time) int64 { return now / 1000 * 1000 }
	leasetest.Rules(t, leasetest.Ruled{Store: s, SetTime: func(ms int64) { now = ms }, Instant: instant, Unit: 1000, Histories: histories})
}
