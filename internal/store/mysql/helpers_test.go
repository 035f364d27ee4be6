//go:build linux

package mysql

import (
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// backend is a server under test, with a second client that reads and damages its data.
type backend struct {
	*script.MariaDBServer
}

func newBackend(t *testing.T, args ...string) backend {
	return backend{script.StartMariaDB(t, args...)}
}

func (b backend) open(t *testing.T) *Store {
	t.Helper()
	return openWith(t, Options{URL: b.URL})
}

func openWith(t *testing.T, o Options) *Store {
	t.Helper()
	o.Prefix = prefix
	s, err := New(o)
	return networktest.Opened(t, s, err)
}

// Helpers that the tests of all networked stores use.
var (
	request, grant, renew, denied = networktest.Request, networktest.Grant, networktest.Renew, networktest.Denied
	bounded, awaits, endOf        = networktest.Bounded, must.Await, networktest.EndOf
)

// do runs SQL, which must not fail, and returns what it prints.
func (b backend) do(t *testing.T, sql string) string {
	t.Helper()
	out, err := b.Do(sql)
	if err != nil {
		t.Fatalf("%s: %v\n%s", sql, err, out)
	}
	return strings.TrimSuffix(out, "\n")
}

// sessions returns the number of stores' sessions.
func (b backend) sessions(t *testing.T) string {
	t.Helper()
	return b.do(t, "SELECT COUNT(*) FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND command <> 'Daemon'")
}

// waits reports whether a session waits in a channel.
func (b backend) waits(t *testing.T, channel string) bool {
	t.Helper()
	return b.do(t, "SELECT COUNT(*) FROM information_schema.processlist WHERE id = IS_USED_LOCK('"+channel+"0') AND state = 'User sleep'") == "1"
}
