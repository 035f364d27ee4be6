//go:build linux

package postgres

import (
	"context"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/scripttest"
)

const prefix = "leaderrun"

// backend is a server under test with a second, independent client to look into
// it and to hurt it.
type backend struct {
	*scripttest.PostgresServer
}

func newBackend(t *testing.T, settings ...string) backend {
	return backend{scripttest.StartPostgres(t, nil, settings...)}
}

func (b backend) open(t *testing.T) *Store {
	t.Helper()
	return openWith(t, Options{URL: b.URL})
}

// as is the server's URL for another user, whose password is sesame.
func (b backend) as(t *testing.T, name string) string {
	t.Helper()
	u, err := url.Parse(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "sesame")
	return u.String()
}

func openWith(t *testing.T, o Options) *Store {
	t.Helper()
	o.Prefix = prefix
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func request(key string) lease.Request {
	return lease.Request{Key: key, Holder: lease.NewHolder("test", os.Getpid()), TTL: 30 * time.Second}
}

func grant(t *testing.T, s *Store, r lease.Request) lease.Lease {
	t.Helper()
	l, err := s.Acquire(bounded(t), r)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return l
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// patience bounds everything that is awaited.
const patience = 30 * time.Second

// awaits wants ok to become true.
func awaits(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s", what)
		}
	}
}

// do runs SQL, which must not fail, and returns the last result as text.
func (b backend) do(t *testing.T, sql string) [][]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := pgconn.Connect(ctx, b.URL+"?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
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

// one is the only value that a query returns.
func (b backend) one(t *testing.T, sql string) string {
	t.Helper()
	rows := b.do(t, sql)
	if len(rows) != 1 || len(rows[0]) != 1 {
		t.Fatalf("%s: %q", sql, rows)
	}
	return rows[0][0]
}
