package runner

import (
	"os"
	"sync"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/proc"
)

// process is a child of this one. It can be signalled from any goroutine and is
// never signalled once it is reaped.
//
// It is no os.Process, whose first use in a program forks a child only to find
// out what the kernel can do: a good part of a millisecond at every start.
type process struct {
	pid    int
	own    *helpers
	mu     sync.Mutex
	reaped bool
}

// startProcess runs the program at path with what this process's caller has
// opened for the command, and with the pipes from the descriptor first on. It gets
// a process group of its own: what a terminal or a kill sends to the caller's group
// does not reach it.
func startProcess(own *helpers, path, name string, env []string, first int, pipes ...*os.File) (*process, error) {
	attr := &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true}}
	const closed = ^uintptr(0)
	for fd := len(attr.Files); fd < first; fd++ {
		if proc.Inherited(fd) {
			attr.Files = append(attr.Files, uintptr(fd))
		} else {
			attr.Files = append(attr.Files, closed)
		}
	}
	for _, f := range pipes {
		attr.Files = append(attr.Files, f.Fd()) // which makes it block: the child has no poller
	}
	pid, err := own.start(path, []string{name}, attr)
	return &process{pid: pid, own: own}, err
}

// lowest is the first descriptor behind the standard ones.
const lowest = 3

// unused is the first of n descriptors in a row, behind the standard ones, that the
// caller has not opened: the command is to get those that it has.
func unused(n int) int {
	first := lowest
	for fd := first; fd < first+n; fd++ {
		if proc.Inherited(fd) {
			first = fd + 1
		}
	}
	return first
}

func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(p.pid, sig) // it may have ended: then it is a zombie still
	}
}

// wait returns how the process ended, and reaps it only while nobody signals.
func (p *process) wait() syscall.WaitStatus {
	proc.AwaitEnd(p.pid)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	return p.own.await(p.pid)
}
