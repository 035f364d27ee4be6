//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/fakeclock"
)

// server is one server, with a wall clock of its own. It keeps over SIGKILL what it
// has acknowledged, unless a fault takes that away.
type server struct {
	technology
	node
	addr  string
	clock string // the file with its clock
}

// technology is what stores differ in.
type technology interface {
	// at names the server at an address of its own or of a proxy.
	at(addr string) string
	// program starts the server.
	program(addr string) *exec.Cmd
	// copyTo copies the data of the running server into a folder.
	copyTo(of *server, dir string) error
	// connect takes one connection of the server.
	connect(ctx context.Context, addr string) (close func(), err error)
	// dir is where all of it is, data where its data is.
	dir() string
	data() string
	// clean removes what is left when the server is gone for good.
	clean()
	// killed removes what would stop the next server from starting.
	killed()
}

// newServer starts one.
func newServer(t technology, host string) (*server, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	s := &server{technology: t, addr: l.Addr().String()}
	l.Close()
	s.clock = filepath.Join(s.dir(), "clock")
	s.node = node{command: func() *exec.Cmd { return s.program(s.addr) }, env: append(os.Environ(), fakeclock.Env(s.clock)...)}
	if err := s.setClock(0); err != nil {
		return nil, err
	}
	if err := copyFolder(s.data(), s.copied(blank)); err != nil {
		return nil, err
	}
	return s, s.start()
}

func (s *server) servers() []string { return []string{s.addr} }

func (s *server) url(proxies []string) string {
	if len(proxies) == 0 {
		return s.at(s.addr)
	}
	return s.at(proxies[0])
}

// start returns when the server answers.
func (s *server) start() error {
	if err := s.launch(); err != nil {
		return err
	}
	if err := answers(s); err != nil {
		s.stop()
		return err
	}
	return nil
}

func (s *server) freeze() error { s.signal(syscall.SIGSTOP); return nil }
func (s *server) cont() error   { s.signal(syscall.SIGCONT); return nil }

// stop is the end, in good order if that is possible.
func (s *server) stop() {
	s.end()
	s.killed()
	s.clean()
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

func (s *server) copied(what string) string { return s.data() + "-" + what }

// save makes a snapshot.
func (s *server) save() error {
	if err := os.RemoveAll(s.copied(snapshot)); err != nil {
		return err
	}
	return s.copyTo(s, s.copied(snapshot))
}

// restartWith kills the server and lets it come back after that time with the
// data of a copy.
func (s *server) restartWith(ctx context.Context, what string, after time.Duration) error {
	if err := s.kill(); err != nil {
		return err
	}
	s.killed()
	if err := os.RemoveAll(s.data()); err != nil {
		return err
	}
	if err := copyFolder(s.copied(what), s.data()); err != nil {
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
	var taken []func()
	defer func() {
		for _, give := range taken {
			give()
		}
	}()
	for ctx.Err() == nil {
		give, err := s.connect(ctx, s.addr)
		if err != nil { // it is full
			pause(ctx, lookEvery)
			continue
		}
		taken = append(taken, give)
	}
}
