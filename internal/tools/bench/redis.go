//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
)

// server is the benchmark's own redis-server on loopback, which writes its log to the disk.
type server struct {
	process *exec.Cmd
	port    string
	args    []string
}

func startRedis(dir string) *server {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	s := &server{port: port}
	s.args = []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--dir", dir, "--logfile", filepath.Join(dir, "redis.log")}
	s.start()
	return s
}

func (s *server) start() {
	s.process = exec.Command("redis-server", s.args...)
	check(s.process.Start())
	await("an answer of redis-server", func() bool { return s.info()("tcp_port") > 0 })
}

// stop has it write what it must, and end.
func (s *server) stop() {
	_ = s.process.Process.Signal(syscall.SIGTERM)
	_ = s.process.Wait()
}

// info asks the server for its counters. They are numbers by name, 0 for a name that it does
// not tell.
func (s *server) info() func(name string) float64 {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	text, _ := exec.CommandContext(ctx, "redis-cli", "-p", s.port, "INFO", "all").Output()
	return func(name string) (n float64) {
		for _, found := range regexp.MustCompile(`(?m)^(?:`+name+`)[:=]([0-9.]+)`).FindAllStringSubmatch(string(text), -1) {
			x, _ := strconv.ParseFloat(found[1], 64) // digits and dots only
			n += x
		}
		return n
	}
}

// What info knows.
const (
	requests  = "cmdstat_(?:eval|evalsha|blpop|hello):calls" // without those that scripts make
	processor = "used_cpu_(?:user|sys)"
)

// awaitListeners waits until n candidates listen: standbys for their turn, and holders for
// calls.
func (s *server) awaitListeners(n int) {
	await(fmt.Sprintf("%d candidates that listen", n), func() bool { return int(s.info()("blocked_clients")) == n })
}
