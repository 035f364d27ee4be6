package file

import (
	"path/filepath"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

func TestKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	leasetest.Kept(t, leasetest.Backing{
		Open: func(t *testing.T) lease.Store { return open(t, dir) },
		Dump: func(t *testing.T, key string) string {
			return must.Read(t, filepath.Join(dir, key+".json"))
		},
		Load: func(t *testing.T, key, kept string) { write(t, filepath.Join(dir, key+".json"), kept) },
	})
}
