//go:build linux

package postgres

import (
	"fmt"
	"slices"
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

// filed returns the tokens of the runs that the store reports.
func filed(t *testing.T, s *Store, key string) (tokens []int64) {
	t.Helper()
	status, err := s.Inspect(bounded(t), key)
	must.Succeed(t, err)
	for _, r := range status.Runs {
		tokens = append(tokens, r.Token)
	}
	return tokens
}

// toFormerLayout moves the runs to where an older leaderrun keeps them.
func toFormerLayout(t *testing.T, b backend) {
	t.Helper()
	b.do(t, `UPDATE leaderrun_leases SET version = version + 1, state = (state - 'keep_ms') || jsonb_build_object('runs', coalesce(runs, '[]'));
		ALTER TABLE leaderrun_leases DROP COLUMN runs`)
}

func TestFormerLayout(t *testing.T) {
	b := newBackend(t)
	s := b.open(t)
	var want []int64
	for range 3 {
		want = slices.Insert(want, 0, run(t, s, request("k")).Token)
	}
	toFormerLayout(t, b)
	if got := filed(t, s, "k"); !slices.Equal(got, want) {
		t.Errorf("runs %d, want %d", got, want)
	}
	const columns = "SELECT count(*) FROM information_schema.columns WHERE table_name = 'leaderrun_leases' AND column_name = 'runs'"
	if b.one(t, columns) != "0" {
		t.Error("who only looks has changed the table")
	}

	l := grant(t, s, request("k"))
	if got := b.one(t, "SELECT jsonb_array_length(runs) || ' ' || (state ? 'runs') FROM leaderrun_leases"); got != "3 false" {
		t.Errorf("in the column, and still in the state: %s", got)
	}
	// An older leaderrun goes on. It knows only the runs that it records itself.
	older := fmt.Sprintf(`[{"token":%d,"tick":1,"start":1,"end":2,"exit":0,"host":"old","holder":"old/1/%s"}]`, l.Token, strings.Repeat("0a", 16))
	b.do(t, `UPDATE leaderrun_leases SET version = version + 1, leader_id = '', state = (state - 'grant' - 'keep_ms') || '{"runs":`+older+`}'`)
	want = slices.Insert(want, 0, l.Token)
	if got := filed(t, s, "k"); !slices.Equal(got, want) {
		t.Errorf("beside an older leaderrun: runs %d, want %d", got, want)
	}
	want = slices.Insert(want, 0, run(t, s, request("k")).Token)
	if got := filed(t, s, "k"); !slices.Equal(got, want) {
		t.Errorf("after one: runs %d, want %d", got, want)
	}
}

func TestMergedRuns(t *testing.T) {
	runs := func(tokens ...int64) (all []lease.Run) {
		for _, token := range tokens {
			all = append(all, lease.Run{Token: max(token, -token), Vanished: token < 0})
		}
		return all
	}
	var many []int64
	for token := int64(30); token > 0; token-- {
		many = append(many, token)
	}
	for _, c := range []struct{ a, b, want []lease.Run }{
		{nil, nil, nil},
		{runs(3, 1), runs(4, 2), runs(4, 3, 2, 1)},
		{runs(-3, 2), runs(3, -2), runs(3, 2)},
		{runs(many...), runs(many...), runs(many[:lease.MaxRuns]...)},
	} {
		if got := mergeRuns(c.a, c.b); !slices.Equal(got, c.want) {
			t.Errorf("%v and %v: %v, want %v", c.a, c.b, got, c.want)
		}
	}
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

func TestIdleRowsAreForgotten(t *testing.T) {
	b := newBackend(t)
	s := b.open(t)
	quarterly := func(key string) lease.Request {
		r := request(key)
		r.Period = 90 * 24 * time.Hour
		return r
	}
	age := func(key string, days int) {
		b.do(t, fmt.Sprintf("UPDATE leaderrun_leases SET version = version - %d * 86400000::bigint WHERE service_name = '%s'", days, key))
	}
	old := run(t, s, request("old"))
	for _, r := range []lease.Request{request("young"), quarterly("quarterly"), quarterly("given-up"), request("former")} {
		run(t, s, r)
	}
	b.do(t, "UPDATE leaderrun_leases SET state = state - 'keep_ms' WHERE service_name = 'former'")
	grant(t, s, request("held")) // the server's clock was set forward, or the holder's host died
	for key, days := range map[string]int{"held": 36, "old": 36, "young": 34, "quarterly": 269, "given-up": 271, "former": 1000} {
		age(key, days)
	}
	rows := func() string {
		return b.one(t, "SELECT string_agg(service_name, ' ' ORDER BY service_name) FROM leaderrun_leases")
	}

	b.do(t, "CREATE ROLE cron LOGIN PASSWORD 'sesame'; GRANT SELECT, INSERT, UPDATE ON leaderrun_leases TO cron")
	run(t, openWith(t, Options{URL: networktest.As(t, b.URL, "cron")}), request("a"))
	if got, want := rows(), "a former given-up held old quarterly young"; got != want {
		t.Errorf("without the right to delete: %s, want %s", got, want)
	}
	run(t, s, request("b"))
	if got, want := rows(), "a b former held quarterly young"; got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
	if again := run(t, s, request("old")); again.Token <= old.Token {
		t.Errorf("token %d after %d", again.Token, old.Token)
	}
}
