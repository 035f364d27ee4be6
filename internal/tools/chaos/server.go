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

// server is one server, with a wall clock of its own. It keeps over SIGKILL what it
// has acknowledged, unless a fault takes that away.
type server struct {
	technology
	leads[*node]
	process node
	addr    string
	clock   string // the file with its clock
}

// technology is what stores differ in.
type technology struct {
	dir, data string // where all of it is, and its data
	temporary bool   // the folder goes with the server
	// at names the server at an address of its own or of a proxy.
	at func(addr string) string
	// program starts the server.
	program func(host, port string) *exec.Cmd
	// copyTo copies the data of the running server into a folder; nil: of its files as they are.
	copyTo func(of *server, dir string) error
	// connect takes one connection of the server.
	connect func(ctx context.Context, addr string) (close func(), err error)
	// killed, unless nil, removes what would stop the next server from starting.
	killed func()
}

// newServer starts one.
func newServer(t technology, host string) (*server, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	s := &server{technology: t, addr: l.Addr().String()}
	l.Close()
	s.clock = filepath.Join(s.dir, "clock")
	command := func() *exec.Cmd { addr, port, _ := net.SplitHostPort(s.addr); return s.program(addr, port) }
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

// stop is the end, in good order if that is possible.
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
	blank    = "blank"    // from before the first start
	snapshot = "snapshot" // of any time
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

// restartWith kills the server and lets it come back after that time with the
// data of a copy.
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

// fill takes all connections that the server gives, until ctx ends.
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
