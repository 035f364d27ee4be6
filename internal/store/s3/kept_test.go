//go:build linux

package s3

import (
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

func TestKept(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	s.Instant.Settle = 0
	leasetest.Kept(t, leasetest.Backing{
		Open: func(*testing.T) lease.Store { return s },
		Dump: func(t *testing.T, key string) string { return must.Read(t, b.file(key)) },
		Load: func(t *testing.T, key, kept string) { b.put(t, s, key, kept) },
	})
}
