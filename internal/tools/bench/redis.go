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
	"time"

	"github.com/leaderrun/leaderrun/internal/store/redis"
)

// server is the benchmark's own redis-server on loopback.
type server struct {
	process    *exec.Cmd
	host, port string
	args       []string
}

// startRedis starts a server on a free port, without persistence unless settings ask for it.
func startRedis(dir string, settings ...string) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{}
	s.host, s.port, _ = net.SplitHostPort(l.Addr().String())
	l.Close()
	s.args = append([]string{"--port", s.port, "--bind", s.host, "--save", "", "--dir", dir, "--logfile", filepath.Join(dir, "redis.log")}, settings...)
	return s, s.start()
}

func (s *server) start() error {
	s.process = exec.Command("redis-server", s.args...)
	if err := s.process.Start(); err != nil {
		return err
	}
	err := await("an answer of redis-server", func() (bool, error) {
		c, err := net.DialTimeout("tcp", net.JoinHostPort(s.host, s.port), time.Second)
		if err != nil {
			return false, nil
		}
		return true, c.Close()
	})
	if err != nil {
		s.stop()
	}
	return err
}

func (s *server) stop() { _ = s.process.Process.Kill(); _ = s.process.Wait() }

func (s *server) url() string { return "redis://" + net.JoinHostPort(s.host, s.port) }

// open returns the same store as the program uses.
func (s *server) open() (*redis.Store, error) {
	return redis.New(redis.Options{URL: s.url(), Prefix: "leaderrun"})
}

// info is the answer to the server's command INFO.
type info string

func (s *server) info() (info, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	text, err := exec.CommandContext(ctx, "redis-cli", "-h", s.host, "-p", s.port, "INFO", "all").Output()
	if err != nil {
		return "", fmt.Errorf("redis-cli INFO: %w", err)
	}
	return info(text), nil
}

// number returns the number after the field's name, 0 if there is none.
func (i info) number(field string) float64 {
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(field) + `([0-9.]+)`).FindStringSubmatch(string(i))
	if found == nil {
		return 0
	}
	n, _ := strconv.ParseFloat(found[1], 64) // digits and dots only
	return n
}

// calls returns how often clients and scripts have sent the command.
func (i info) calls(command string) float64 { return i.number("cmdstat_" + command + ":calls=") }

// cpu returns the processor time that the server has used, in seconds.
func (i info) cpu() float64 { return i.number("used_cpu_user:") + i.number("used_cpu_sys:") }

// awaitStandbys waits until n standbys, and one holder, are blocked: standbys wait for
// wake-ups, and holders for calls in the same way.
func (s *server) awaitStandbys(n int) error {
	return await(fmt.Sprintf("%d standbys", n), func() (bool, error) {
		i, err := s.info()
		return int(i.number("blocked_clients:")) == n+1, err
	})
}

// patience is how long anything may take that should happen soon.
const patience = 30 * time.Second

// await waits until so returns true.
func await(what string, so func() (bool, error)) error { return awaitFor(patience, what, so) }

func awaitFor(atMost time.Duration, what string, so func() (bool, error)) error {
	for deadline := time.Now().Add(atMost); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if ok, err := so(); ok || err != nil {
			return err
		}
	}
	return fmt.Errorf("waited %s for %s in vain", atMost, what)
}
