//go:build linux

package postgres

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/network"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// The user has the rights that scripts/postgres.sql gives, no others.
func TestContract(t *testing.T) {
	t.Parallel()
	b := backend{script.StartPostgres(t, map[string]string{"pg_hba.conf": "host all all 127.0.0.1/32 trust\n"})}
	b.do(t, "CREATE ROLE cron LOGIN")
	for range 2 {
		script := exec.CommandContext(bounded(t), "psql", "-X", "-v", "ON_ERROR_STOP=1", "-v", "user=cron", "-f", "../../../scripts/postgres.sql", b.URL)
		if out, err := script.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if got := b.one(t, "SELECT string_agg(privilege_type, ', ' ORDER BY privilege_type) FROM information_schema.role_table_grants WHERE grantee = 'cron'"); got != "DELETE, INSERT, SELECT, UPDATE" {
		t.Errorf("the script grants %s", got)
	}
	var channels channels
	h := networktest.Harness(func(t *testing.T, dial network.Dial) lease.Store {
		return openWith(t, Options{URL: networktest.As(t, b.URL, "cron") + "?sslmode=disable", Dialer: channels.dialer(dial)})
	})
	h.Listens = func(_ *testing.T, key string) bool {
		return channels.open((&Store{prefix: prefix}).channelOf(keep.Call, key))
	}
	h.Wipe = func(t *testing.T) { b.do(t, "DELETE FROM leaderrun_leases") }
	h.Damage = damages(b)
	leasetest.Run(t, h)
}

// Whatever the server's default is, and while several candidates make the table.
func TestHistories(t *testing.T) {
	t.Parallel()
	b := agedBackend(t, map[string]string{"pg_hba.conf": "host all all 127.0.0.1/32 trust\n"}, "default_transaction_isolation=serializable")
	leasetest.Histories(t, leasetest.Harness{Settles: true, Open: func(t *testing.T) lease.Store {
		return openWith(t, Options{URL: b.URL + "?sslmode=disable"})
	}})
}

// damages are rows that leaderrun does not write; package rules tests what else no state may be.
func damages(b backend) []leasetest.Damage {
	holder := string(lease.NewHolder("h", 1))
	row := func(name, leader, term, version, state string) leasetest.Damage {
		return leasetest.Damage{Name: name, Do: func(t *testing.T, key string) {
			b.do(t, fmt.Sprintf(`DELETE FROM leaderrun_leases WHERE service_name = '%[1]s';
				INSERT INTO leaderrun_leases (prefix, service_name, leader_id, term, version, state)
				VALUES ('%[2]s', '%[1]s', '%[3]s', %[4]s, %[5]s, '%[6]s')`, key, prefix, leader, term, version, strings.ReplaceAll(state, "KEY", key)))
		}}
	}
	state := func(name, leader, term, text string) leasetest.Damage { return row(name, leader, term, "7", text) }
	return []leasetest.Damage{
		{Name: "runs that are none", Do: func(t *testing.T, key string) {
			row("", "", "0", "7", `{"version":1,"key":"KEY","token":0}`).Do(t, key)
			b.do(t, fmt.Sprintf(`UPDATE leaderrun_leases SET runs = '{"token":1}' WHERE service_name = '%s'`, key))
		}},
		state("a number", "", "0", `1e1000`),
		state("another form", "", "0", `{"version":2,"key":"KEY","token":0}`),
		state("another key", "", "0", `{"version":1,"key":"KEYX","token":0}`),
		state("a grant of another boot", holder, "5", `{"version":1,"key":"KEY","token":5,"grant":{"holder":"`+holder+`","ttl_ms":5,"boot":"b"}}`),
		state("too large", "", "5", `{"version":1,"key":"KEY","token":5,"x":"`+strings.Repeat("x", 2*maxAnswer)+`"}`),
		state("a leader that nobody granted", holder, "5", `{"version":1,"key":"KEY","token":5}`),
		state("another term", "", "6", `{"version":1,"key":"KEY","token":5}`),
		row("no version", "", "5", "0", `{"version":1,"key":"KEY","token":5}`),
		row("a negative version", "", "5", "-5", `{"version":1,"key":"KEY","token":5}`),
	}
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.do(t, createTable)
	networktest.Conflicts(t, b.open(t), b.open(t).Store, func() { b.do(t, "DELETE FROM leaderrun_leases") })
}
