package file

import (
	"context"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
	"github.com/leaderrun/leaderrun/internal/store/cas"
)

// The time of each change is the test's, not the kernel's.
func TestRules(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	var now int64
	change := s.Verbs
	s.Verbs = func(ctx context.Context, c cas.Change) (lease.Lease, error) {
		c.Apply = leasetest.At(&now, c.Apply)
		return change(ctx, c)
	}
	leasetest.Rules(t, leasetest.Ruled{
		Store:     s,
		SetTime:   func(ms int64) { now = ms },
		Instant:   leasestate.Instant{Boot: s.boot},
		Histories: 40,
	})
}
