//go:build linux || darwin

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/leaderrun/leaderrun/internal/proc"
	"github.com/leaderrun/leaderrun/internal/test/faultnet"
)

// candidate is one leaderrun, as on its own host.
type candidate struct {
	name  string
	marks string // the file to which its command writes marks
	proxy *faultnet.Proxy
	cmd   *exec.Cmd
	read  int64 // so much of marks
	// spans are the times in which its commands were alive, by token.
	spans     []span
	dead, cut bool
}

// span is the life of one command.
type span struct {
	token       int64
	first, last time.Duration // on the clock of the deadlines
}

const (
	// pace is how often a command writes a mark.
	pace = 5 * time.Millisecond
	// lives is how long after its last mark a command counts as dead.
	lives = 100 * time.Millisecond
)

// work is the command: it writes marks with its token and the time.
func work(marks string) {
	f, err := os.OpenFile(marks, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	for err == nil {
		_, err = fmt.Fprintln(f, os.Getenv("LEADERRUN_TOKEN"), proc.Now())
		time.Sleep(pace)
	}
	os.Exit(1)
}

func (c *candidate) start(program string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c.cmd = exec.Command(program, "--key", "demo", "--store", "redis://"+c.proxy.Addr(), "--ttl", ttl.String(),
		"--wait", "forever", "--retry", "100ms", "--quiet", "--", self, "work", c.marks)
	return c.cmd.Start()
}

func (c *candidate) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
	c.dead = true
}

// stop ends the candidate, and with it its command.
func (c *candidate) stop() {
	if c.dead {
		return
	}
	_ = c.cmd.Process.Signal(os.Interrupt)
	ended := time.AfterFunc(10*time.Second, func() { _ = c.cmd.Process.Kill() })
	_ = c.cmd.Wait()
	ended.Stop()
}

// look reads the new marks.
func (c *candidate) look() error {
	f, err := os.Open(c.marks)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(c.read, 0); err != nil {
		return err
	}
	for in := bufio.NewReader(f); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil // the rest of this line comes next time
		}
		c.read += int64(len(line))
		var token, at int64
		if _, err := fmt.Sscan(line, &token, &at); err != nil {
			return fmt.Errorf("%s wrote %q: %w", c.name, line, err)
		}
		if n := len(c.spans); n == 0 || c.spans[n-1].token != token {
			c.spans = append(c.spans, span{token: token, first: time.Duration(at)})
		}
		c.spans[len(c.spans)-1].last = time.Duration(at)
	}
}

func (c *candidate) newest() span {
	if len(c.spans) == 0 {
		return span{}
	}
	return c.spans[len(c.spans)-1]
}

func (c *candidate) leads() bool {
	s := c.newest()
	return s.token != 0 && time.Duration(proc.Now())-s.last < lives
}
