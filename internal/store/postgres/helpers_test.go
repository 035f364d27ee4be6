//go:build linux

package postgres

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leaderrun/leaderrun/internal/store/network"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

const prefix = "leaderrun"

// backend is a server under test, with a second client that reads and damages its data.
type backend struct {
	*script.PostgresServer
}

func newBackend(t *testing.T, settings ...string) backend {
	return agedBackend(t, nil, settings...)
}

// agedBackend starts a server that seems to have run for long, so that no key settles because
// it is new. A schema before pg_catalog in the search path replaces the function.
func agedBackend(t *testing.T, files map[string]string, settings ...string) backend {
	b := backend{script.StartPostgres(t, files, settings...)}
	for _, database := range []string{"template1", "postgres"} {
		b.in(database).do(t, `CREATE SCHEMA aged; GRANT USAGE ON SCHEMA aged TO PUBLIC;
			CREATE FUNCTION aged.pg_postmaster_start_time() RETURNS timestamptz LANGUAGE sql AS $$ SELECT timestamptz '2020-01-01' $$`)
	}
	b.do(t, "ALTER ROLE ALL SET search_path = public, aged, pg_catalog")
	return b
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
const patience = networktest.Patience

var (
	request, grant, renew, denied = networktest.Request, networktest.Grant, networktest.Renew, networktest.Denied
	bounded, awaits, endOf        = networktest.Bounded, must.Await, networktest.EndOf
)

// do runs SQL, which must not fail, and returns the last result as text.
func (b backend) do(t *testing.T, sql string) [][]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := pgconn.Connect(ctx, b.URL+"?sslmode=disable")
	must.Succeed(t, err)
	defer func() { _ = c.Close(ctx) }()
	results, err := c.Exec(ctx, sql).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	var text [][]string
	for _, row := range results[len(results)-1].Rows {
		var line []string
		for _, value := range row {
			line = append(line, string(value))
		}
		text = append(text, line)
	}
	return text
}

// one returns the only value of a query's result.
func (b backend) one(t *testing.T, sql string) string {
	t.Helper()
	rows := b.do(t, sql)
	if len(rows) != 1 || len(rows[0]) != 1 {
		t.Fatalf("%s: %q", sql, rows)
	}
	return rows[0][0]
}

// channels are the channels to which connections listen. A LISTEN is committed when the
// client sends its next request.
type channels struct {
	mu   sync.Mutex
	have map[string]bool
}

func (c *channels) open(channel string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.have[channel]
}

func (c *channels) dialer(dial network.Dial) network.Dial {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return &channelConn{Conn: conn, all: c}, err
	}
}

type channelConn struct {
	net.Conn
	all  *channels
	sent string // the channel of a LISTEN that may not be committed yet
}

func (c *channelConn) Write(p []byte) (int, error) {
	c.all.mu.Lock()
	if c.all.have == nil {
		c.all.have = map[string]bool{}
	}
	if c.sent != "" {
		c.all.have[c.sent], c.sent = true, ""
	}
	if _, after, ok := strings.Cut(string(p), "; LISTEN "); ok {
		c.sent, _, _ = strings.Cut(after, "\x00")
		c.all.have[c.sent] = false
	}
	c.all.mu.Unlock()
	return c.Conn.Write(p)
}
