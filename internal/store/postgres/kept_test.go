//go:build linux

package postgres

import (
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
			return b.one(t, "SELECT row_to_json(l) FROM leaderrun_leases l WHERE service_name = '"+key+"'")
		},
		Load: func(t *testing.T, _, kept string) {
			b.do(t, `DELETE FROM leaderrun_leases;
				INSERT INTO leaderrun_leases SELECT * FROM json_populate_record(NULL::leaderrun_leases, '`+kept+`')`)
		},
	})
}
