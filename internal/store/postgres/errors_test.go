//go:build linux

package postgres

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/store/network"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

func TestUnreachable(t *testing.T) {
	networktest.Unreachable(t, "postgres at h:5432", "the store's URL", func(dial network.Dial) *Store {
		return openWith(t, Options{URL: "postgres://cron:sesame@h/db?sslmode=disable", Dialer: dial})
	}, networktest.CallsOf)
}

// What a real server refuses, and what is made of it.
func TestServerRefuses(t *testing.T) {
	t.Parallel()
	b := agedBackend(t, map[string]string{
		"pg_hba.conf": "host all shut 127.0.0.1/32 reject\nhost all all 127.0.0.1/32 scram-sha-256\n",
	})
	b.do(t, `CREATE ROLE shut LOGIN PASSWORD 'sesame'; CREATE ROLE cron LOGIN PASSWORD 'sesame'; CREATE ROLE one LOGIN CONNECTION LIMIT 0 PASSWORD 'sesame'; CREATE ROLE mute PASSWORD 'sesame'`)
	const table = `CREATE TABLE leaderrun_leases (prefix text, service_name text, leader_id text, term bigint, last_heartbeat timestamptz,
		metadata jsonb, version bigint, state jsonb, runs jsonb`
	key := ", PRIMARY KEY (prefix, service_name))"
	for i, c := range []struct {
		name, user, database, query string
		prepare                     string // SQL in the database
		permanent                   bool
		says, hint                  string
	}{
		{name: "not admitted", user: "shut", permanent: true, says: "pg_hba.conf", hint: "pg_hba.conf"},
		{name: "no login", user: "mute", permanent: true, says: "is not permitted to log in (28000)", hint: "ALTER ROLE"},
		{name: "too many connections", user: "one", says: "too many connections for role", hint: "CONNECTION LIMIT"},
		{name: "no schema", user: "cron", prepare: "DROP SCHEMA public; ALTER DATABASE %s SET search_path = public", permanent: true, says: "is missing, and no schema has been selected", hint: "scripts/postgres.sql"},
		{name: "a schema without rights", user: "cron", prepare: createTable + "; GRANT ALL ON leaderrun_leases TO cron; REVOKE USAGE ON SCHEMA public FROM PUBLIC; CREATE SCHEMA cron AUTHORIZATION cron", permanent: true, says: "is out of sight in the schema public", hint: "GRANT USAGE"},
		{name: "a schema that is not in the path", user: "cron", prepare: createTable + "; GRANT ALL ON leaderrun_leases TO cron; ALTER DATABASE %s SET search_path = ''", permanent: true, says: "is out of sight in the schema public", hint: "search_path"},
		{name: "no update", user: "cron", prepare: createTable + "; GRANT SELECT, INSERT ON leaderrun_leases TO cron", permanent: true, says: "permission denied", hint: "UPDATE"},
		{name: "no connect", user: "cron", prepare: "REVOKE CONNECT ON DATABASE %s FROM PUBLIC", permanent: true, says: "permission denied for database", hint: "GRANT CONNECT"},
		{name: "an option without the right", user: "cron", query: "options=-c%20log_statement%3Dall", permanent: true, says: "permission denied to set parameter", hint: "options="},
		{name: "no connections", prepare: "UPDATE pg_database SET datallowconn = false WHERE datname = '%s'", permanent: true, says: "is not currently accepting connections", hint: "ALLOW_CONNECTIONS"},
		{name: "row security", user: "cron", prepare: table + key + "; GRANT ALL ON leaderrun_leases TO cron; ALTER TABLE leaderrun_leases ENABLE ROW LEVEL SECURITY", permanent: true, says: "row-level security", hint: "row security policy"},
		{name: "numbers for names", prepare: strings.ReplaceAll(table, "service_name text", "service_name int") + key, permanent: true, says: "22P02", hint: "another version"},
		{name: "short names", prepare: strings.ReplaceAll(table, "leader_id text", "leader_id varchar(5)") + key, permanent: true, says: "22001", hint: "another version"},
		{name: "small numbers", prepare: strings.ReplaceAll(table, "term bigint", "term int") + key, permanent: true, says: "2200", hint: "another version"},
		{name: "no key", prepare: table + ")", permanent: true, says: "no unique or exclusion constraint", hint: "another version"},
		{name: "one row twice", prepare: table + "); INSERT INTO leaderrun_leases SELECT 'leaderrun', 'k' FROM generate_series(1, 2)", permanent: true, says: "is not leaderrun's", hint: "another version"},
		{name: "a column more", prepare: table + ", tenant text NOT NULL" + key, permanent: true, says: "not-null", hint: "another version"},
		{name: "a constraint", prepare: table + ", CHECK (term < 0)" + key, permanent: true, says: "check constraint", hint: "another version"},
		{name: "a trigger", prepare: createTable + "; CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''no''; END'; CREATE TRIGGER no BEFORE INSERT ON leaderrun_leases EXECUTE FUNCTION no()", permanent: true, says: "P0001", hint: "trigger"},
		{name: "read only", prepare: "ALTER DATABASE %s SET default_transaction_read_only = on", says: "25006", hint: "default_transaction_read_only"},
		{name: "statement timeout", prepare: createTable + "; ALTER DATABASE %s SET statement_timeout = '100ms'; CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(60); END'; CREATE TRIGGER slow BEFORE INSERT ON leaderrun_leases EXECUTE FUNCTION slow()", says: "statement timeout", hint: "statement_timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := fmt.Sprintf("db%d", i)
			b.do(t, "CREATE DATABASE "+db)
			if c.prepare != "" {
				if strings.Contains(c.prepare, "%s") {
					c.prepare = fmt.Sprintf(c.prepare, db)
				}
				b.in(db).do(t, c.prepare)
			}
			address := b.in(db).URL
			if c.user != "" {
				address = networktest.As(t, b.in(db).URL, c.user)
			}
			if c.database != "" {
				address = strings.ReplaceAll(address, "/"+db, "/"+c.database)
			}
			if c.query != "" {
				address += "?" + c.query
			}
			s := openWith(t, Options{URL: address})
			for range 2 {
				err := networktest.Refused(t, s)
				networktest.WantError(t, err, c.permanent, c.says, c.hint)
				networktest.WantError(t, err, c.permanent, "acquire: postgres at "+b.Addr+": ", "")
			}
		})
	}
}

// While a database is dropped and made anew (pg_restore --create), candidates that may create the
// table go on standing by.
func TestDatabaseIsMadeAnew(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.do(t, "CREATE DATABASE jobs")
	open := func() networktest.Store { return b.in("jobs").open(t) }
	drop, restore := func() { b.do(t, "DROP DATABASE jobs WITH (FORCE)") }, func() { b.do(t, "CREATE DATABASE jobs") }
	networktest.LoginIsReadAgain(t, open, drop, restore, "(3D000)", "create that database")
}

func TestRightsComeBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ take, give, says string }{
		"the table":  {"REVOKE SELECT ON leaderrun_leases FROM cron", "GRANT SELECT ON leaderrun_leases TO cron", "permission denied"},
		"the log-in": {"ALTER ROLE cron NOLOGIN", "ALTER ROLE cron LOGIN", "not permitted to log in"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t)
			b.do(t, createTable+"; CREATE ROLE cron LOGIN PASSWORD 'sesame'; GRANT SELECT, INSERT, UPDATE ON leaderrun_leases TO cron")
			change := func(sql string) func() {
				return func() {
					b.do(t, sql)
					b.do(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'cron'")
				}
			}
			open := func() networktest.Store { return openWith(t, Options{URL: networktest.As(t, b.URL, "cron")}) }
			networktest.RightsComeBack(t, open, b.open(t), change(c.take), change(c.give), c.says)
		})
	}
}

// in returns the same server with another database.
func (b backend) in(database string) backend {
	other := *b.PostgresServer
	other.URL = strings.TrimSuffix(b.URL, "postgres") + database
	return backend{&other}
}

func TestReplica(t *testing.T) {
	t.Parallel()
	replica := script.StartPostgres(t, map[string]string{"standby.signal": ""})
	networktest.WantError(t, networktest.Refused(t, openWith(t, Options{URL: replica.URL})), false, "it is a replica", "name the server that takes writes")

	// A replica that has the table, and the server that it could follow.
	b := newBackend(t)
	b.do(t, createTable)
	both := "postgres://postgres:s3cret@" + replica.Addr + "," + b.Addr + "/postgres"
	l := grant(t, openWith(t, Options{URL: both}), request("k"))
	renew(t, b.open(t), l)
	b.Kill()
	must.Succeed(t, os.WriteFile(filepath.Join(b.Dir, "standby.signal"), nil, 0o644))
	b.Restart()
	all := networktest.CallsOf(b.open(t))
	for _, op := range []string{"acquire", "renew", "release", "wait", "listen"} { // others may only read
		err := all[op](bounded(t))
		networktest.WantError(t, err, false, op+": postgres at "+b.Addr+": it is a replica", "name the server that takes writes")
	}
	networktest.WantError(t, networktest.Refused(t, openWith(t, Options{URL: both})), false, "it is a replica", "name the server that takes writes")
}

// Errors that a real server gives only in states that are hard to cause.
func TestServerIsUnwell(t *testing.T) {
	for _, c := range []struct{ state, text, hint string }{
		{"57P03", "the database system is starting up", "wait until it has started"},
		{"57P03", "the database system is not accepting connections", "wait until it has started"},
		{"57P01", "terminating connection due to administrator command", "wait until it is back"},
		{"57P05", "terminating connection due to idle-session timeout", "idle_session_timeout"},
		{"53100", "could not extend file: No space left on device", "disk"},
		{"53200", "out of memory", "memory"},
		{"XX000", "something new", "look at its log"},
	} {
		t.Run(c.state, func(t *testing.T) {
			body := "SFATAL\x00C" + c.state + "\x00M" + c.text + "\x00\x00"
			s := openWith(t, Options{URL: "postgres://cron:sesame@" + networktest.Answering(t, "E\x00\x00\x00"+string([]byte{byte(4 + len(body))})+body) + "/db?sslmode=disable"})
			networktest.WantError(t, networktest.Refused(t, s), false, c.text+" ("+c.state+")", c.hint)
		})
	}
}

// The script makes the same table as the store.
func TestScriptMakesTheSameTable(t *testing.T) {
	script := must.Read(t, "../../../scripts/postgres.sql")
	for _, sql := range []string{createTable, storeRuns} {
		if !strings.Contains(script, strings.TrimSpace(sql)+";") {
			t.Errorf("scripts/postgres.sql does not have %s in it", sql)
		}
	}
}

// Another kind of server grants nothing and causes no panic, and no message shows the
// password.
func TestHostileAnswers(t *testing.T) {
	const hello = "R\x00\x00\x00\x08\x00\x00\x00\x00" + "K\x00\x00\x00\x0c\x00\x00\x00\x01\x00\x00\x00\x01" + "Z\x00\x00\x00\x05I"
	row := func(values ...string) string {
		body := string([]byte{0, byte(len(values))})
		for _, v := range values {
			body += string([]byte{0, 0, 0, byte(len(v))}) + v
		}
		return "1\x00\x00\x00\x04" + "2\x00\x00\x00\x04" + "n\x00\x00\x00\x04" + "D\x00\x00\x00" + string([]byte{byte(4 + len(body))}) + body + "C\x00\x00\x00\x0dSELECT 1\x00"
	}
	const end = "Z\x00\x00\x00\x05I"
	for _, answer := range []string{
		"", "\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "\x00\xff\xfe\r\n", "\x1b[31mred\r\n", "N", "S",
		"R\x00\x00\x00\x00", "R\x00\x00\x00\x03", "R\x00\x00\x00\x04", "R\x00\x00\x00\x08\x00\x00\x00\x63", "R\x7f\xff\xff\xff", "R\xff\xff\xff\xff",
		"R\x00\x00\x00\x08\x00\x00\x00\x0a", "R\x00\x00\x00\x17\x00\x00\x00\x0aSCRAM-SHA-256\x00\x00",
		"E\x00\x00\x00\x05\x00", "E\x00\x00\x00\x04", "E\x00\x00\x00\x0fMsesame\x1b\x00\x00\x00", "E\x00\x00\x00\x14SFATAL\x00C28P01\x00\x00",
		"Z\x00\x00\x00\x05I", "Z\x00\x00\x00\x04", "A\x00\x00\x00\x04", "T\x00\x00\x00\x06\x7f\xff", "D\x00\x00\x00\x06\x7f\xff", "D\x00\x00\x00\x0a\x00\x01\x7f\xff\xff\xff",
		"S\x00\x00\x00\x04", "K\x00\x00\x00\x04", "G\x00\x00\x00\x04", "v\x00\x00\x00\x04", "1\x00\x00\x00\x04", "C\x00\x00\x00\x04",
		end, row() + end, row("1") + end, row("1") + row("1") + end, row("1") + row("1") + row("1") + end,
		row("1") + row("x", "1", "f", "", "", "", "") + end,
		row("1") + row("1", "1", "", "", "", "", "") + end,
		row("1") + row("1", "1", "f", "1", "", "5", "null") + end,
		row("1") + row("99999999999999999999", "1", "f", "1", "", "5", "{}") + end,
	} {
		t.Run(fmt.Sprintf("%.30q", answer), func(t *testing.T) {
			for _, answers := range [][]string{{answer}, {hello, answer}} {
				s := openWith(t, Options{URL: "postgres://cron:sesame@" + networktest.Answering(t, answers...) + "/db?sslmode=disable"})
				networktest.WantNoAnswers(t, s)
			}
		})
	}
}
