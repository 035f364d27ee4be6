//go:build linux

package postgres

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// pgBouncer starts a PgBouncer in front of a server, for the user postgres and databases with
// the given lines, and returns its address.
func (b backend) pgBouncer(t *testing.T, databases string, settings ...string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("pgbouncer is not installed: apt-get install pgbouncer")
	}
	must.Succeed(t, err)
	dir, err := os.MkdirTemp("", "pgbouncer-") //nolint:usetesting // its user cannot reach a test's folder
	must.Succeed(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	addr := l.Addr().String()
	_ = l.Close()
	_, port, _ := net.SplitHostPort(addr)
	config := filepath.Join(dir, "pgbouncer.ini")
	for file, text := range map[string]string{
		"users": `"postgres" "s3cret"` + "\n" + `"other" "sesame"` + "\n",
		"pgbouncer.ini": fmt.Sprintf("[databases]\n%s\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port=%s\nunix_socket_dir=\nauth_type=scram-sha-256\nauth_file=%s/users\npool_mode=transaction\n%s\n",
			databases, port, dir, strings.Join(settings, "\n")),
	} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
		must.Succeed(t, script.GivePostgres(filepath.Join(dir, file)))
	}
	must.Succeed(t, script.GivePostgres(dir))
	cmd := exec.Command(program, "-q", config)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: script.PostgresUser(), Pdeathsig: syscall.SIGKILL}
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	awaits(t, "pgbouncer", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return addr
}

// No store may listen on a pooler's connections: the next request may come from another client.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	host, port, _ := net.SplitHostPort(b.Addr)
	addr := b.pgBouncer(t, fmt.Sprintf("postgres=host=%s port=%s dbname=postgres", host, port))
	var w networktest.Wire
	pooled := openWith(t, Options{URL: "postgres://postgres:s3cret@" + addr + "/postgres?sslmode=disable", Dialer: w.Dial})
	l := grant(t, pooled, request("k"))
	for _, err := range []error{pooled.Wait(bounded(t), "k", time.Minute), pooled.Listen(bounded(t), "k")} {
		if !errors.Is(err, lease.ErrNoWakeups) {
			t.Errorf("%v, want ErrNoWakeups", err)
		}
	}
	must.Succeed(t, pooled.Release(bounded(t), l, lease.Result{}))
	if w.Used() != 1 || strings.Contains(w.Sent(), "LISTEN") {
		t.Errorf("%d connections, sent %q", w.Used(), w.Sent())
	}
}

// PgBouncer has one SQLSTATE for all errors. A wrong login stays wrong; a server that cannot be
// reached may come back.
func TestPgBouncerRefuses(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	host, port, _ := net.SplitHostPort(b.Addr)
	at := fmt.Sprintf("host=%s port=%s dbname=", host, port)
	gone := networktest.NeverAnswers(t)
	_, dead, _ := net.SplitHostPort(gone)
	addr := b.pgBouncer(t, strings.Join([]string{
		"postgres=" + at + "postgres", "missing=" + at + "missing", "unknown=" + at + "postgres user=unknown password=sesame",
		"dead=host=127.0.0.1 port=1 dbname=postgres", "silent=host=127.0.0.1 port=" + dead + " dbname=postgres",
	}, "\n"), "query_wait_timeout=2", "server_connect_timeout=1")
	one := b.pgBouncer(t, "postgres="+at+"postgres", "max_client_conn=1")
	grant(t, openWith(t, Options{URL: "postgres://postgres:s3cret@" + addr + "/postgres?sslmode=disable"}), request("k"))
	grant(t, openWith(t, Options{URL: "postgres://postgres:s3cret@" + one + "/postgres?sslmode=disable"}), request("other")) // it keeps its connection
	for name, c := range map[string]struct {
		url        string
		permanent  bool
		says, hint string
	}{
		"password":            {"postgres:sesame@" + addr + "/postgres", true, "authentication failed", "correct the user or the password"},
		"user":                {"nobody:sesame@" + addr + "/postgres", true, "authentication failed", "correct the user or the password"},
		"database":            {"postgres:s3cret@" + addr + "/nowhere", true, "no such database", "[databases]"},
		"database behind":     {"postgres:s3cret@" + addr + "/missing", true, "does not exist", "create it"},
		"login behind":        {"postgres:s3cret@" + addr + "/unknown", true, "authentication failed", "correct the user or the password"},
		"refused behind":      {"postgres:s3cret@" + addr + "/dead", false, "", "SHOW POOLS"},
		"no answer behind":    {"postgres:s3cret@" + addr + "/silent", false, "", "SHOW POOLS"},
		"too many of clients": {"postgres:s3cret@" + one + "/postgres", false, "max_client_conn", "raise the pooler's"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			networktest.WantError(t, networktest.Refused(t, openWith(t, Options{URL: "postgres://" + c.url + "?sslmode=disable"})), c.permanent, c.says, c.hint)
		})
	}
}
