//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/proc"
	"github.com/leaderrun/leaderrun/internal/store/postgres"
	"github.com/leaderrun/leaderrun/internal/store/redis"
)

const prefix = "leaderrun"

// server is a store's server on loopback. It keeps over SIGKILL what it has
// acknowledged, as the promise demands of a store.
type server struct {
	addr    string
	dir     string
	scheme  string // the URL is scheme, address, rest
	rest    string
	command func() *exec.Cmd
	process *child
}

func newServer(store, dir string) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{addr: l.Addr().String()}
	l.Close()
	prepare := s.redis
	if store == "postgres" {
		prepare = s.postgres
	}
	if err := prepare(dir); err != nil {
		return nil, err
	}
	return s, s.start()
}

func (s *server) port() string { _, port, _ := net.SplitHostPort(s.addr); return port }

func (s *server) redis(dir string) error {
	s.scheme, s.rest = "redis://", ""
	s.command = func() *exec.Cmd {
		// What has been acknowledged is in the hands of the system, which outlives
		// the process; waiting for the disk would only cost time.
		return exec.Command("redis-server", "--port", s.port(), "--bind", "127.0.0.1", "--save", "",
			"--appendonly", "yes", "--appendfsync", "no", "--dir", dir, "--logfile", filepath.Join(dir, "redis.log"))
	}
	return nil
}

// postgres makes a data directory for a user who may run the server: root may not.
func (s *server) postgres(string) error {
	s.scheme, s.rest = "postgres://postgres@", "/postgres?sslmode=disable"
	dir, err := os.MkdirTemp("", "chaos-postgres")
	if err != nil {
		return err
	}
	s.dir = dir
	attr := &syscall.SysProcAttr{}
	if os.Geteuid() == 0 {
		nobody, err := user.Lookup("nobody")
		if err != nil {
			return err
		}
		uid, _ := strconv.Atoi(nobody.Uid) // numbers on every Unix
		gid, _ := strconv.Atoi(nobody.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			return err
		}
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	as := func(program string, args ...string) *exec.Cmd {
		cmd := exec.Command(postgresProgram(program), args...)
		cmd.Dir, cmd.SysProcAttr = dir, attr
		return cmd
	}
	data := filepath.Join(dir, "data")
	if out, err := as("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale", "C", "--no-sync").CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	s.command = func() *exec.Cmd {
		return as("postgres", "-D", data, "-p", s.port(), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
			"-c", "fsync=off", "-c", "shared_buffers=8MB", "-c", "logging_collector=on")
	}
	return nil
}

// postgresProgram finds the newest one where Debian keeps it, or in PATH.
func postgresProgram(name string) string {
	all, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(all) == 0 {
		return name
	}
	return slices.MaxFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
}

// url names the server at an address of its own or of a proxy.
func (s *server) url(addr string) string { return s.scheme + addr + s.rest }

// store is what judges and operators have of it.
type store interface {
	lease.Operator
	Close() error
}

func (s *server) open() (store, error) {
	if s.dir != "" {
		return postgres.New(postgres.Options{URL: s.url(s.addr), Prefix: prefix})
	}
	return redis.New(redis.Options{URL: s.url(s.addr), Prefix: prefix})
}

// start returns when the server answers.
func (s *server) start() error {
	process, err := launch(s.command())
	if err != nil {
		return err
	}
	s.process = process
	if err := s.answers(); err != nil {
		s.stop()
		return err
	}
	return nil
}

func (s *server) answers() error {
	store, err := s.open()
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	return await(context.Background(), "an answer of the store", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := store.Inspect(ctx, "none")
		return err == nil
	})
}

// all are the server's processes: Postgres has one per connection.
func (s *server) all() []int {
	children, _ := proc.ChildrenOf(s.process.pid())
	return append(children, s.process.pid())
}

func (s *server) signal(sig syscall.Signal) {
	// The first one starts the others: it is stopped before they are looked for.
	_ = s.process.cmd.Process.Signal(syscall.SIGSTOP)
	for _, pid := range s.all() {
		_ = syscall.Kill(pid, sig)
	}
}

// kill ends the server as a crash does, and returns when nothing of it is left.
func (s *server) kill() error {
	_ = s.process.cmd.Process.Signal(syscall.SIGSTOP)
	all := s.all()
	for _, pid := range all {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-s.process.over
	return await(context.Background(), "the end of the store's processes", func() bool {
		return !slices.ContainsFunc(all, lives)
	})
}

// stop is the end. A clean one takes along what Postgres shares between its
// processes.
func (s *server) stop() {
	s.signal(syscall.SIGCONT)
	_ = s.process.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-s.process.over:
	case <-time.After(patience):
		_ = s.kill()
	}
	if s.dir != "" {
		os.RemoveAll(s.dir)
	}
}
