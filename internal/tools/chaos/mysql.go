//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/leaderrun/leaderrun/internal/test/script"
)

var mysqlWorld = world{
	name: "mysql", ttl: 3 * time.Second, has: []need{proxied, oldData, ownClock, connections},
	open: func(at site) (backend, error) { return newMariaDB(at.addr, at.dir) },
}

// newMariaDB creates the files of a new server and starts it. Its user may not use the
// connection that servers reserve for administrators.
func newMariaDB(host, dir string) (*server, error) {
	t := technology{dir: dir, data: filepath.Join(dir, "data"), connect: connectMariaDB}
	first, basics := filepath.Join(dir, "first.sql"), script.BasicsOfMariaDB(t.data)
	basics = slices.Clip(basics)
	t.at = func(addr string) string { return "mysql://leaderrun@" + addr + "/jobs" }
	t.program = func(host, port string) *exec.Cmd {
		return exec.Command("mariadbd", append(basics, "--port="+port, "--bind-address="+host, "--socket=", "--init-file="+first,
			"--max-connections="+strconv.Itoa(slots), "--log-error="+filepath.Join(dir, "mariadb.log"))...)
	}
	t.copyTo = func(of *server, to string) error { // its files at one moment: it starts with them as after a crash
		of.process.signal(syscall.SIGSTOP)
		defer of.process.signal(syscall.SIGCONT)
		return copyFolder(t.data, to)
	}
	const sql = "CREATE DATABASE IF NOT EXISTS jobs;\nCREATE USER IF NOT EXISTS leaderrun;\nGRANT ALL ON jobs.* TO leaderrun;\n"
	if err := os.WriteFile(first, []byte(sql), 0o600); err != nil {
		return nil, err
	}
	out, err := exec.Command("mariadb-install-db", append(basics, "--skip-test-db", "--auth-root-authentication-method=normal")...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("mariadb-install-db: %w\n%s", err, out)
	}
	return newServer(t, host)
}

func connectMariaDB(ctx context.Context, addr string) (func(), error) {
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr, config.Logger = "leaderrun", "tcp", addr, &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	c, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return func() { _ = c.Close() }, nil
}
