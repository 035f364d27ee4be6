package postgres

import (
	"fmt"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

func TestURL(t *testing.T) {
	me, err := user.Current()
	must.Succeed(t, err)
	for _, c := range []struct{ url, addr, user, password, database string }{
		{"postgres://cron@127.0.0.1:5433/jobs", "127.0.0.1:5433", "cron", "", "jobs"},
		{"postgresql://cron@pg.example/jobs", "pg.example:5432", "cron", "", "jobs"},
		{"postgres://pg.example/jobs", "pg.example:5432", me.Username, "", "jobs"},
		{"postgres://cron:secret@[::1]:7000/jobs", "[::1]:7000", "cron", "secret", "jobs"},
		{"postgres://cron:secret@[::1]/jobs", "[::1]:5432", "cron", "secret", "jobs"},
		{"postgres://cr%40n:a%3Ab%2Fc%3Fd%23e%5Bf%5Dg%40h%25+i@h/a%20b", "h:5432", "cr@n", "a:b/c?d#e[f]g@h%+i", "a b"},
		{"postgres://cron@a,b,c/jobs", "a:5432,b:5432,c:5432", "cron", "", "jobs"},
		{"postgres://cron@a:1,b:2/jobs", "a:1,b:2", "cron", "", "jobs"},
		{"postgres://cron@a,b/jobs?sslmode=disable", "a:5432,b:5432", "cron", "", "jobs"},
	} {
		config, err := parseURL(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		addr := newConns(c.url, config, nil).addr
		if addr != c.addr || config.User != c.user || config.Password != c.password || config.Database != c.database {
			t.Errorf("%s: %q %q %q %q", c.url, addr, config.User, config.Password, config.Database)
		}
	}
}

func TestParameters(t *testing.T) {
	config, err := parseURL("postgres://cron@h/jobs?application_name=a+b%20c&options=-csearch_path%3Dleases")
	must.Succeed(t, err)
	for name, want := range map[string]string{"application_name": "a+b c", "options": "-csearch_path=leases", "client_encoding": "UTF8"} {
		if got := config.RuntimeParams[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// The environment is ignored: the same line in a crontab must mean the same store on every
// host, and the variables are the command's.
func TestSurroundingsDoNotCount(t *testing.T) {
	const address = "postgres://cron@h/jobs"
	before, err := parseURL(address)
	must.Succeed(t, err)
	home := t.TempDir()
	t.Setenv("HOME", home)
	for name, content := range map[string]string{
		".pgpass":              "*:*:*:*:sesame\n",
		".postgresql/root.crt": "no certificate", ".postgresql/postgresql.crt": "none", ".postgresql/postgresql.key": "none",
		".pg_service.conf": "[other]\nhost=elsewhere\nport=1\ndbname=other\nuser=other\npassword=sesame\nsslmode=verify-full\nsearch_path=other\n",
	} {
		path := filepath.Join(home, name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Succeed(t, os.WriteFile(path, []byte(content), 0o600))
	}
	for name, value := range map[string]string{
		"PGHOST": "elsewhere", "PGPORT": "1,2", "PGDATABASE": "other", "PGUSER": "other", "PGPASSWORD": "sesame", "PGPASSFILE": filepath.Join(home, ".pgpass"),
		"PGAPPNAME": "other", "PGCONNECT_TIMEOUT": "x", "PGSSLMODE": "verify-full", "PGSSLKEY": "/nowhere", "PGSSLCERT": "/nowhere", "PGSSLCERTMODE": "x",
		"PGSSLSNI": "0", "PGSSLROOTCERT": "/nowhere", "PGSSLPASSWORD": "sesame", "PGSSLNEGOTIATION": "direct", "PGTARGETSESSIONATTRS": "standby",
		"PGSERVICE": "other", "PGTZ": "other", "PGOPTIONS": "-csearch_path=other", "PGMINPROTOCOLVERSION": "x", "PGMAXPROTOCOLVERSION": "x",
		"PGCHANNELBINDING": "require", "PGREQUIREAUTH": "none",
	} {
		t.Setenv(name, value)
	}
	after, err := parseURL(address)
	must.Succeed(t, err)
	said := func(c *pgconn.Config) string {
		return fmt.Sprintln(c.Host, c.Port, c.User, c.Password, c.Database, len(c.Fallbacks), c.TLSConfig.ServerName, c.RuntimeParams, c.SSLNegotiation,
			c.SSLCertMode, c.ChannelBinding, c.RequireAuth, c.MinProtocolVersion, c.MaxProtocolVersion, c.ConnectTimeout)
	}
	if said(before) != said(after) {
		t.Errorf("%s became %s", said(before), said(after))
	}
	if after.TLSConfig.RootCAs != nil || len(after.TLSConfig.Certificates) > 0 || after.ValidateConnect != nil {
		t.Errorf("certificates or a kind of server come from somewhere: %+v", after)
	}
}

func TestServiceThatIsMissing(t *testing.T) {
	t.Setenv("PGSERVICE", "other")
	t.Setenv("PGSERVICEFILE", "/nowhere")
	if _, err := parseURL("postgres://cron:sesame@h/jobs"); err == nil || !strings.Contains(err.Error(), "PGSERVICE") || strings.Contains(err.Error(), "sesame") {
		t.Errorf("%v", err)
	}
}

func TestBadURL(t *testing.T) {
	leasetest.SaysWhy(t, func(url, prefix string) error { _, err := New(Options{URL: url, Prefix: prefix}); return err }, "postgres://h/jobs", [][2]string{
		{"", `must begin with "postgres://"`},
		{"sesame@h:5432", `must begin with "postgres://"`},
		{"Postgres://h/jobs", `must begin with "postgres://"`},
		{"host=h password=sesame", `must begin with "postgres://"`},
		{"postgres://", "names no host"},
		{"postgres://:5432/jobs", "names no host"},
		{"postgres://a,,b/jobs", "names no host"},
		{"postgres://h/", "names no database"},
		{"postgres://cron:sesame@h", "names no database"},
		{"postgres://h:65536/jobs", "port"},
		{"postgres://a:0,b:1/jobs", "port"},
		{"postgres://h:sesame/jobs", "cannot be read"},
		{"postgres://a:1,b/jobs", "cannot be read"},
		{"postgres://h\n/jobs", "cannot be read"},
		{"postgres://[::1/jobs", "cannot be read"},
		{"postgres://h/sesame/jobs", "not the name of a database"},
		{"postgres://h/jobs#sesame", "not the name of a database"},
		{"postgres://:sesame@h/jobs", "no user"},
		{"postgres://h/jobs?sslmod=require", "does not know"},
		{"postgres://h/jobs?password=sesame", "does not know"},
		{"postgres://h/jobs?service=other", "does not know"},
		{"postgres://h/jobs?sslmode=", "empty or given twice"},
		{"postgres://h/jobs?sslmode=require&sslmode=disable", "empty or given twice"},
		{"postgres://h/jobs?%zz", "cannot be read"},
		{"postgres://h/jobs?sslmode=yes", "sslmode is invalid"},
		{"postgres://h/jobs?channel_binding=sesame", "does not know"},
		{"postgres://h/jobs?target_session_attrs=sesame", "takes no leases"},
		{"postgres://h/jobs?target_session_attrs=standby", "takes no leases"},
		{"postgres://h/jobs?sslmode=verify-full&sslrootcert=/nowhere/ca.pem", "/nowhere/ca.pem: no such file"},
		{"postgres://h/jobs?sslmode=verify-full&sslrootcert=/dev/null", "holds no certificate"},
		{"postgres://h/jobs?sslcert=/nowhere/c.pem", "both"},
		{"postgres://h/jobs?sslcert=/nowhere/c.pem&sslkey=/nowhere/k.pem", "/nowhere/k.pem: no such file"},
		// passwords that were not encoded
		{"postgres://cron:ses#ame@h/jobs", "cannot be read"},
		{"postgres://cron:1#sesame@h/jobs", "names no database"},
		{"postgres://cron:1?sesame@h/jobs", "names no database"},
		{"postgres://cron:1/sesame@h/jobs", "not the name of a database"},
		{"postgres://cron:ses%ame@h/jobs", "cannot be read"},
	}...)
}

func TestPasswordFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	must.Succeed(t, os.WriteFile(file, []byte("s3:cr/t@?#+ %\nsecond line\n"), 0o600))
	config, err := parseURL("postgres://u:file:" + url.PathEscape(file) + "@h/d")
	if err != nil || config.Password != "s3:cr/t@?#+ %" || config.User != "u" {
		t.Errorf("%+v, %v", config, err)
	}
	if _, err := parseURL("postgres://u:file:%2Fmissing@h/d"); err == nil || !strings.Contains(err.Error(), `the password file "/missing" cannot be read: no such file`) {
		t.Errorf("a missing file: %v", err)
	}
}
