package file

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
)

func TestKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	leasetest.Kept(t, leasetest.Backing{
		Open: func(t *testing.T) lease.Store { return open(t, dir) },
		Dump: func(t *testing.T, key string) string {
			text, err := os.ReadFile(filepath.Join(dir, key+".json"))
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		},
		Load: func(t *testing.T, key, kept string) { write(t, filepath.Join(dir, key+".json"), kept) },
	})
}
