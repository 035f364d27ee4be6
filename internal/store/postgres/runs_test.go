//go:build linux

package postgres

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// run leads, releases and so records a run.
func run(t *testing.T, s *Store, r lease.Request) lease.Lease {
	t.Helper()
	r.Holder = request(r.Key).Holder
	l := grant(t, s, r)
	time.Sleep(2 * time.Millisecond) // so that no two runs begin in the same millisecond
	must.Succeed(t, s.Release(bounded(t), l, lease.Result{Ran: true, Success: true}))
	return l
}

// A renewal does not write the runs again, which are four kilobytes.
func TestRenewalLeavesTheRuns(t *testing.T) {
	b := newBackend(t, "autovacuum=off", "full_page_writes=off")
	s := b.open(t)
	for range lease.MaxRuns {
		run(t, s, request("k"))
	}
	l := grant(t, s, request("k"))
	written := func() int {
		n, err := strconv.Atoi(b.one(t, "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"))
		must.Succeed(t, err)
		return n
	}
	const renewals = 50
	before := written()
	for range renewals {
		time.Sleep(2 * time.Millisecond)
		renew(t, s, l)
	}
	each := (written() - before) / renewals
	runs, _ := strconv.Atoi(b.one(t, "SELECT length(runs::text) FROM leaderrun_leases"))
	if each > 1000 || runs < 3000 {
		t.Errorf("a renewal writes %d bytes; the runs have %d", each, runs)
	}
}

// If other transactions keep a change from being made, the error does not blame the table.
func TestSerializationFailures(t *testing.T) {
	b := newBackend(t)
	s := b.open(t)
	l := grant(t, s, request("k"))
	b.do(t, `CREATE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'could not serialize access' USING ERRCODE = '40001'; END $$;
		CREATE TRIGGER never BEFORE UPDATE ON leaderrun_leases FOR EACH ROW EXECUTE FUNCTION never()`)
	time.Sleep(2 * time.Millisecond)
	err := networktest.NotRenewed(t, s, l)
	networktest.WantError(t, err, false, "10 changes in a row were refused because of others: could not serialize access (40001)", "default_transaction_isolation = 'read committed'")
	if strings.Contains(err.Error(), "trigger") {
		t.Errorf("renew: %v", err)
	}
}

// Keys that must stay do not keep others from going.
func TestIdleRowsAreForgotten(t *testing.T) {
	b := newBackend(t)
	s := b.open(t)
	age := func(key string, days int) {
		b.do(t, fmt.Sprintf(`UPDATE leaderrun_leases SET version = version - %[1]d * 86400000::bigint,
			state = state || jsonb_build_object('changed', (state -> 'changed')::bigint - %[1]d * 86400000::bigint) WHERE service_name LIKE '%[2]s%%'`, days, key))
	}
	old := run(t, s, request("old"))
	for i := range 12 {
		r := request(fmt.Sprint("quarterly", i))
		r.Period = 90 * 24 * time.Hour
		run(t, s, r)
	}
	grant(t, s, request("held")) // the server's clock was set forward, or the holder's host died
	for key, days := range map[string]int{"held": 36, "old": 36, "quarterly": 269} {
		age(key, days)
	}
	rows := func() string {
		return b.one(t, "SELECT string_agg(service_name, ' ' ORDER BY service_name) FROM leaderrun_leases")
	}

	b.do(t, "CREATE ROLE cron LOGIN PASSWORD 'sesame'; GRANT SELECT, INSERT, UPDATE ON leaderrun_leases TO cron")
	run(t, openWith(t, Options{URL: networktest.As(t, b.URL, "cron")}), request("a"))
	if got := rows(); !strings.Contains(got, "old") {
		t.Errorf("without the right to delete: %s", got)
	}
	run(t, s, request("b"))
	if got := rows(); strings.Contains(got, "old") || !strings.Contains(got, "a b held quarterly0") {
		t.Errorf("rows %s", got)
	}
	if again := run(t, s, request("old")); again.Token <= old.Token {
		t.Errorf("token %d after %d", again.Token, old.Token)
	}
}
