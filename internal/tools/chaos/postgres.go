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
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"
)

// postgresServer runs as a user who may run it: root may not.
type postgresServer struct {
	folder string
	slots  int
	attr   *syscall.SysProcAttr
}

var postgresWorld = world{
	name: "postgres", ttl: 3 * time.Second, has: []need{proxied, oldData, ownClock, connections},
	open: func(at site) (backend, error) {
		s, err := newPostgres(slots)
		if err != nil {
			return nil, err
		}
		return newServer(s, at.addr)
	},
}

func newPostgres(slots int) (*postgresServer, error) {
	dir, err := os.MkdirTemp("", "chaos-postgres")
	if err != nil {
		return nil, err
	}
	s := &postgresServer{folder: dir, slots: slots, attr: &syscall.SysProcAttr{}}
	if os.Geteuid() == 0 {
		nobody, err := user.Lookup("nobody")
		if err != nil {
			return nil, err
		}
		uid, _ := strconv.Atoi(nobody.Uid) // numbers on every Unix
		gid, _ := strconv.Atoi(nobody.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			return nil, err
		}
		s.attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	// Small files: the whole folder is copied again and again.
	if err := s.run("initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale", "C", "--wal-segsize", "1", "--no-sync"); err != nil {
		return nil, err
	}
	const all = "host all all all trust\nhost replication all all trust\n"
	return s, os.WriteFile(filepath.Join(s.data(), "pg_hba.conf"), []byte(all), 0o600)
}

func (s *postgresServer) dir() string  { return s.folder }
func (s *postgresServer) data() string { return filepath.Join(s.folder, "data") }
func (s *postgresServer) clean()       { os.RemoveAll(s.folder) }

func (s *postgresServer) at(addr string) string {
	return "postgres://postgres@" + addr + "/postgres?sslmode=disable"
}

func (s *postgresServer) tool(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(postgresProgram(name), args...)
	cmd.Dir, cmd.SysProcAttr = s.folder, s.attr
	return cmd
}

func (s *postgresServer) run(name string, args ...string) error {
	out, err := s.tool(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
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

func (s *postgresServer) program(addr string) *exec.Cmd {
	host, port, _ := net.SplitHostPort(addr)
	return s.tool("postgres", "-D", s.data(), "-p", port, "-c", "listen_addresses="+host, "-c", "unix_socket_directories=",
		"-c", "fsync=off", "-c", "shared_buffers=8MB", "-c", "max_connections="+strconv.Itoa(s.slots), "-c", "logging_collector=on",
		"-c", "log_directory="+s.folder, "-c", "dynamic_shared_memory_type=mmap") // files of its own, also after a kill
}

func (s *postgresServer) copyTo(of *server, dir string) error {
	host, port, _ := net.SplitHostPort(of.addr)
	return s.run("pg_basebackup", "-h", host, "-p", port, "-U", "postgres", "-D", dir, "-X", "fetch", "-c", "fast", "--no-sync", "--no-manifest")
}

func (s *postgresServer) connect(ctx context.Context, addr string) (func(), error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, err := pgconn.Connect(ctx, s.at(addr))
	if err != nil {
		return nil, err
	}
	return func() { _ = c.Close(context.Background()) }, nil
}

// killed removes the shared memory by which a killed server would keep its folder
// from another.
func (s *postgresServer) killed() {
	const idLine = 6
	pidFile, _ := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if lines := strings.Split(string(pidFile), "\n"); len(lines) > idLine {
		if fields := strings.Fields(lines[idLine]); len(fields) == 2 {
			if id, err := strconv.Atoi(fields[1]); err == nil {
				_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
			}
		}
	}
}
