//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/proc"
)

// child is a process that this program has started.
type child struct {
	cmd  *exec.Cmd
	over chan struct{} // closed when it is reaped
	// killed is when it was first sent SIGKILL, just before that; 0 if it was not.
	killed atomic.Int64
}

func launch(cmd *exec.Cmd) (*child, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, over: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // its log says how it ended
		close(c.over)
	}()
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

func (c *child) ended() bool {
	select {
	case <-c.over:
		return true
	default:
		return false
	}
}

// signal signals the child, and nobody if it has been reaped.
func (c *child) signal(sig syscall.Signal) {
	if sig == syscall.SIGKILL {
		c.killed.CompareAndSwap(0, int64(clock()))
	}
	_ = c.cmd.Process.Signal(sig)
}

// guard returns the process id of the candidate's guard, 0 if there is none.
func (c *child) guard() int {
	children, _ := proc.ChildrenOf(c.pid())
	for _, pid := range children {
		if isGuard(pid) {
			return pid
		}
	}
	return 0
}

func isGuard(pid int) bool {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(name)) == "lease-guard"
}

// signalGuard signals a guard, and not another process that has got a dead guard's id.
func signalGuard(pid int, sig syscall.Signal) {
	if pid != 0 && isGuard(pid) {
		_ = syscall.Kill(pid, sig)
	}
}

// end stops children and returns when they are reaped. It ignores nil.
func end(children ...*child) {
	children = slices.DeleteFunc(slices.Clone(children), func(c *child) bool { return c == nil })
	for _, c := range children {
		c.signal(syscall.SIGCONT)
		c.signal(syscall.SIGTERM)
	}
	limit := time.After(patience)
	for _, c := range children {
		select {
		case <-c.over:
		case <-limit:
			c.signal(syscall.SIGKILL)
			<-c.over
		}
	}
}
