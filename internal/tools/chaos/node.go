//go:build linux

package main

import (
	"context"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/proc"
	"github.com/leaderrun/leaderrun/internal/test/fakeclock"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// node is a server process of a store that can be restarted.
type node struct {
	command func() *exec.Cmd
	env     []string
	process *child
}

func (n *node) launch() error {
	cmd := n.command()
	cmd.Env = n.env
	process, err := launch(cmd)
	if err == nil {
		n.process = process
	}
	return err
}

// all returns the node's processes: Postgres has one per connection.
func (n *node) all() []int {
	children, _ := proc.ChildrenOf(n.process.pid())
	return append(children, n.process.pid())
}

func (n *node) signal(sig syscall.Signal) {
	// The first one starts the others, so it is stopped before they are listed.
	_ = n.process.cmd.Process.Signal(syscall.SIGSTOP)
	for _, pid := range n.all() {
		_ = syscall.Kill(pid, sig)
	}
}

// kill ends the node like a crash, and returns when no process of it is left.
func (n *node) kill() error {
	_ = n.process.cmd.Process.Signal(syscall.SIGSTOP)
	all := n.all()
	for _, pid := range all {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-n.process.over
	fakeclock.Forget(n.process.pid())
	return await(context.Background(), "the end of the store's processes", func() bool {
		return !slices.ContainsFunc(all, script.Lives)
	})
}

// end stops the node properly if possible.
func (n *node) end() {
	if n.process == nil || n.process.ended() {
		return
	}
	n.signal(syscall.SIGCONT)
	_ = n.process.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-n.process.over:
	case <-time.After(patience):
		_ = n.kill()
	}
}

// member is a node of a store, or anything else that can be killed and restarted.
type member interface {
	comparable
	kill() error
	launch() error
	signal(sig syscall.Signal)
}

// leads is the part of a backend that injects faults into the member that leads.
type leads[M member] struct {
	leading func() (M, error)
	ready   func() error // returns when the store works
	failed  M            // the member with the last fault
}

func (l *leads[M]) hit() (err error) {
	l.failed, err = l.leading()
	return err
}

func (l *leads[M]) kill() error {
	if err := l.hit(); err != nil {
		return err
	}
	return l.failed.kill()
}

func (l *leads[M]) start() error {
	if err := l.failed.launch(); err != nil {
		return err
	}
	return l.ready()
}

func (l *leads[M]) freeze() error {
	err := l.hit()
	if err == nil {
		l.failed.signal(syscall.SIGSTOP)
	}
	return err
}

func (l *leads[M]) cont() error {
	l.failed.signal(syscall.SIGCONT)
	return l.ready()
}

// alone returns the leads of a store with only one member.
func alone(n *node, b backend) leads[*node] {
	return leads[*node]{leading: func() (*node, error) { return n, nil }, ready: func() error { return answers(b) }, failed: n}
}
