//go:build linux

package mysql

import (
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
)

func TestKept(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	leasetest.Kept(t, leasetest.Backing{
		Open: func(t *testing.T) lease.Store { return b.open(t) },
		Dump: func(t *testing.T, key string) string {
			return b.do(t, "SELECT version, state FROM leaderrun_leases WHERE service_name = '"+key+"'")
		},
		Load: func(t *testing.T, key, kept string) {
			version, state, _ := strings.Cut(kept, "\t")
			b.do(t, "REPLACE INTO leaderrun_leases VALUES ('leaderrun', '"+key+"', "+version+", '"+strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(state)+"')")
		},
	})
}
