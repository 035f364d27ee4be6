//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/fakeclock"
)

// server is one server with its own wall clock. After SIGKILL it has all that it
// acknowledged, unless a fault removes that.
type server struct {
	technology
	leads[*node]
	process node
	addr    string
	clock   string // the file with its clock
}

// technology is what differs between stores.
type technology struct {
	dir, data string // the server's folder, and that of its data
	temporary bool   // dir is removed with the server
	// at names the server at an address of its own or of a proxy.
	at func(addr string) string
	// program starts the server.
	program func(host, port string) *exec.Cmd
	// copyTo copies the data of the running server into a folder; nil means to copy its files.
	copyTo func(of *server, dir string) error
	// connect opens one connection to the server.
	connect func(ctx context.Context, addr string) (close func(), err error)
	// killed, unless nil, removes what would keep the server from restarting.
	killed func()
}

// newServer starts one.
func newServer(t technology, host string) (*server, error) {
	ports, err := freePorts(host, 1)
	if err != nil {
		return nil, err
	}
	s := &server{technology: t, addr: net.JoinHostPort(host, ports[0])}
	s.clock = filepath.Join(s.dir, "clock")
	command := func() *exec.Cmd { return s.program(host, ports[0]) }
	s.process = node{command: command, env: append(os.Environ(), fakeclock.Env(s.clock)...)}
	s.leads = alone(&s.process, s)
	if err := s.setClock(0); err != nil {
		return nil, err
	}
	if err := copyFolder(s.data, s.copied(blank)); err != nil {
		return nil, err
	}
	if err := s.start(); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *server) servers() []string { return []string{s.addr} }

func (s *server) url(proxies []string) string {
	if len(proxies) == 0 {
		return s.at(s.addr)
	}
	return s.at(proxies[0])
}

// stop ends the server, properly if possible.
func (s *server) stop() {
	s.process.end()
	s.free()
	if s.temporary {
		os.RemoveAll(s.dir)
	}
}

func (s *server) free() {
	if s.killed != nil {
		s.killed()
	}
}

// setClock sets the server's wall clock to a distance from that of this host.
func (s *server) setClock(ahead time.Duration) error { return setClock(s.clock, ahead) }

func setClock(file string, ahead time.Duration) error {
	return fakeclock.Set(file, fmt.Sprintf("%+.3f", ahead.Seconds()))
}

// Copies of the data that a server may restart with.
const (
	blank    = "blank"    // made before the first start
	snapshot = "snapshot" // made at any time
)

func (s *server) copied(what string) string { return s.data + "-" + what }

// save makes a snapshot.
func (s *server) save() error {
	if err := os.RemoveAll(s.copied(snapshot)); err != nil {
		return err
	}
	if s.copyTo == nil {
		return copyFolder(s.data, s.copied(snapshot))
	}
	return s.copyTo(s, s.copied(snapshot))
}

// restartWith kills the server and restarts it after that time with the data of a copy.
func (s *server) restartWith(ctx context.Context, what string, after time.Duration) error {
	if err := s.kill(); err != nil {
		return err
	}
	s.free()
	if err := os.RemoveAll(s.data); err != nil {
		return err
	}
	if err := copyFolder(s.copied(what), s.data); err != nil {
		return err
	}
	pause(ctx, after)
	return s.start()
}

// copyFolder copies a folder with the owners of its files.
func copyFolder(from, to string) error {
	out, err := exec.Command("cp", "-a", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cp -a %s %s: %w\n%s", from, to, err, out)
	}
	return nil
}

// fill opens as many connections as the server allows, until ctx ends.
func (s *server) fill(ctx context.Context) {
	for ctx.Err() == nil {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		give, err := s.connect(attempt, s.addr)
		cancel()
		if err != nil { // it is full
			pause(ctx, lookEvery)
			continue
		}
		defer give()
	}
}
