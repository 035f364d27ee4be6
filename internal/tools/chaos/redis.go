//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// redisServer keeps its data in a folder of append-only files.
type redisServer struct {
	folder string
	slots  int
}

var redisWorld = world{
	name: "redis", ttl: 3 * time.Second, has: []need{proxied, oldData, ownClock, connections},
	open: func(at site) (backend, error) { return newRedis(at.addr, at.dir, slots) },
}

// newRedis starts one that has so many connections to give.
func newRedis(host, dir string, slots int) (*server, error) {
	s := &redisServer{dir, slots}
	if err := os.Mkdir(s.data(), 0o700); err != nil {
		return nil, err
	}
	return newServer(s, host)
}

func (s *redisServer) dir() string           { return s.folder }
func (s *redisServer) data() string          { return filepath.Join(s.folder, "appendonlydir") }
func (s *redisServer) at(addr string) string { return "redis://" + addr }
func (s *redisServer) killed()               {}
func (s *redisServer) clean()                {}

func (s *redisServer) program(addr string) *exec.Cmd {
	host, port, _ := net.SplitHostPort(addr)
	// What has been acknowledged is in the hands of the system, which outlives the
	// process; waiting for the disk would only cost time.
	return exec.Command("redis-server", "--port", port, "--bind", host, "--protected-mode", "no", "--save", "", "--maxclients", strconv.Itoa(s.slots),
		"--appendonly", "yes", "--appendfsync", "no", "--dir", s.folder, "--logfile", filepath.Join(s.folder, "redis.log"))
}

// copyTo may find half of the last command in the file, as a crash may leave it.
func (s *redisServer) copyTo(_ *server, dir string) error { return copyFolder(s.data(), dir) }

func (s *redisServer) connect(ctx context.Context, addr string) (func(), error) {
	c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(time.Second)) // a server that is stopped does not answer
	answer := make([]byte, len("+PONG\r\n"))
	if _, err = io.WriteString(c, "PING\r\n"); err == nil {
		_, err = io.ReadFull(c, answer)
	}
	if err == nil && !strings.HasPrefix(string(answer), "+PONG") {
		err = fmt.Errorf("%w: %s", syscall.EAGAIN, answer)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return func() { c.Close() }, nil
}
