//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/proc"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// child is a process that the benchmark has started.
type child struct {
	cmd   *exec.Cmd
	over  chan struct{} // closed when it is reaped
	err   error         // how it ended
	letGo io.Closer     // ends a holder's command when it is closed
}

func launch(cmd *exec.Cmd) *child {
	cmd.Stderr = os.Stderr
	must.Check(cmd.Start())
	c := &child{cmd: cmd, over: make(chan struct{})}
	go func() {
		c.err = cmd.Wait()
		close(c.over)
	}()
	return c
}

// hold runs args with a command that goes on until letGo, and returns once it runs.
func hold(args []string) *child {
	cmd := exec.Command(args[0], append(args[1:len(args):len(args)], "cat")...)
	in, err := cmd.StdinPipe()
	must.Check(err)
	out, echo, err := os.Pipe()
	must.Check(err)
	defer out.Close()
	defer echo.Close()
	cmd.Stdout = echo
	c := launch(cmd)
	c.letGo = in
	_ = out.SetReadDeadline(time.Now().Add(must.Patience))
	if _, err = in.Write([]byte("x")); err == nil {
		_, err = out.Read(make([]byte, 1))
	}
	if err != nil {
		c.end()
	}
	must.Check(err)
	return c
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// end stops a child, and returns when it is reaped. It kills a child that does not stop.
func (c *child) end() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-c.over:
	case <-time.After(must.Patience):
		_ = c.cmd.Process.Kill()
		<-c.over
	}
}

// awaitEnd waits for a child that has to end by itself, without an error.
func (c *child) awaitEnd() {
	select {
	case <-c.over:
		must.Check(c.err)
	case <-time.After(must.Patience):
		must.Check(fmt.Errorf("%s did not end in %s", c.cmd, must.Patience))
	}
}

// guard returns the elector's guard, which is its only child.
func (c *child) guard() int {
	children, _ := proc.ChildrenOf(c.pid())
	if len(children) != 1 {
		must.Check(fmt.Errorf("the elector has the children %v, not a guard alone", children))
	}
	return children[0]
}

// pss returns the sum of the proportional set sizes of an elector and its guard, in MB.
func (c *child) pss() (sum float64) {
	for _, pid := range []int{c.pid(), c.guard()} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		must.Check(err)
		var kib float64
		_, rest, _ := strings.Cut(string(text), "\nPss:")
		_, err = fmt.Sscan(rest, &kib)
		must.Check(err)
		sum += kib * 1024 / 1e6
	}
	return sum
}
