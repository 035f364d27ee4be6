//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leaderrun/leaderrun/internal/test/script"
)

var postgresWorld = world{
	name: "postgres", ttl: 3 * time.Second, has: []need{proxied, oldData, ownClock, connections},
	open: func(at site) (backend, error) { return newPostgres(at.addr) },
}

// newPostgres starts a server as another user if this is root, who must not run it. That user
// cannot reach this program's folders.
func newPostgres(host string) (*server, error) {
	dir, err := os.MkdirTemp("", "chaos-postgres")
	if err != nil {
		return nil, err
	}
	attr := &syscall.SysProcAttr{Credential: script.PostgresUser()}
	if err := script.GivePostgres(dir); err != nil {
		return nil, err
	}
	tool := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(script.PostgresProgram(name), args...)
		cmd.Dir, cmd.SysProcAttr = dir, attr
		return cmd
	}
	run := func(name string, args ...string) error {
		out, err := tool(name, args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", name, err, out)
		}
		return nil
	}
	t := technology{dir: dir, data: filepath.Join(dir, "data"), temporary: true, connect: connectPostgres, at: postgresURL}
	t.program = func(host, port string) *exec.Cmd {
		return tool("postgres", "-D", t.data, "-p", port, "-c", "listen_addresses="+host, "-c", "unix_socket_directories=",
			"-c", "fsync=off", "-c", "shared_buffers=8MB", "-c", "max_connections="+strconv.Itoa(slots), "-c", "logging_collector=on",
			"-c", "log_directory="+dir, "-c", "dynamic_shared_memory_type=mmap") // in its own files, which are still there after a kill
	}
	t.copyTo = func(of *server, to string) error {
		host, port, _ := net.SplitHostPort(of.addr)
		return run("pg_basebackup", "-h", host, "-p", port, "-U", "postgres", "-D", to, "-X", "fetch", "-c", "fast", "--no-sync", "--no-manifest")
	}
	t.killed = func() { script.FreePostgresMemory(t.data) }
	// Small files, since the whole folder is copied often.
	if err := run("initdb", "-D", t.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale", "C", "--wal-segsize", "1", "--no-sync"); err != nil {
		return nil, err
	}
	const all = "host all all all trust\nhost replication all all trust\n"
	if err := os.WriteFile(filepath.Join(t.data, "pg_hba.conf"), []byte(all), 0o600); err != nil {
		return nil, err
	}
	return newServer(t, host)
}

func postgresURL(addr string) string {
	return "postgres://postgres@" + addr + "/postgres?sslmode=disable"
}

func connectPostgres(ctx context.Context, addr string) (func(), error) {
	c, err := pgconn.Connect(ctx, postgresURL(addr))
	if err != nil {
		return nil, err
	}
	return func() { _ = c.Close(context.Background()) }, nil
}
