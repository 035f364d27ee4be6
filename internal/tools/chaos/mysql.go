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

	"github.com/go-sql-driver/mysql"
)

// mysqlServer is a MariaDB.
type mysqlServer struct {
	folder string
	slots  int
}

var mysqlWorld = world{
	name: "mysql", ttl: 3 * time.Second, has: []need{proxied, oldData, ownClock, connections},
	open: func(at site) (backend, error) {
		s := &mysqlServer{at.dir, slots}
		if err := s.install(); err != nil {
			return nil, err
		}
		return newServer(s, at.addr)
	},
}

// install makes the files of a new server. Its user has no right to the connection that
// servers keep for people.
func (s *mysqlServer) install() error {
	const first = "CREATE DATABASE IF NOT EXISTS jobs;\nCREATE USER IF NOT EXISTS leaderrun;\nGRANT ALL ON jobs.* TO leaderrun;\n"
	if err := os.WriteFile(s.first(), []byte(first), 0o600); err != nil {
		return err
	}
	out, err := exec.Command("mariadb-install-db", append(s.basics(), "--skip-test-db", "--auth-root-authentication-method=normal")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mariadb-install-db: %w\n%s", err, out)
	}
	return nil
}

// basics keep the files small: the whole folder is copied again and again. What has been
// acknowledged is in the hands of the system, as with Redis.
func (s *mysqlServer) basics() []string {
	args := []string{
		"--no-defaults", "--datadir=" + s.data(), "--tmpdir=" + s.folder, "--skip-name-resolve", "--innodb-log-file-size=4M", "--innodb-data-file-path=ibdata1:5M:autoextend",
		"--innodb-autoextend-increment=1", "--innodb-buffer-pool-size=8M", "--innodb-flush-log-at-trx-commit=2",
	}
	if os.Geteuid() == 0 {
		args = append(args, "--user=root") // which it does not do by itself
	}
	return args
}

func (s *mysqlServer) dir() string   { return s.folder }
func (s *mysqlServer) data() string  { return filepath.Join(s.folder, "data") }
func (s *mysqlServer) first() string { return filepath.Join(s.folder, "first.sql") }
func (s *mysqlServer) killed()       {}
func (s *mysqlServer) clean()        {}

func (s *mysqlServer) at(addr string) string { return "mysql://leaderrun@" + addr + "/jobs" }

func (s *mysqlServer) program(addr string) *exec.Cmd {
	host, port, _ := net.SplitHostPort(addr)
	return exec.Command("mariadbd", append(s.basics(), "--port="+port, "--bind-address="+host, "--socket=", "--init-file="+s.first(),
		"--max-connections="+strconv.Itoa(s.slots), "--log-error="+filepath.Join(s.folder, "mariadb.log"))...)
}

// copyTo copies what the files are at one instant, at which the server is stopped: it
// starts with them as after a crash.
func (s *mysqlServer) copyTo(of *server, dir string) error {
	of.signal(syscall.SIGSTOP)
	defer of.signal(syscall.SIGCONT)
	return copyFolder(s.data(), dir)
}

func (s *mysqlServer) connect(ctx context.Context, addr string) (func(), error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
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
