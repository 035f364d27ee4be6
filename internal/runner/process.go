package runner

import (
	"os"
	"sync"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/proc"
)

// process is a child of this process. It can be signalled from any goroutine, and is never
// signalled once it is reaped.
//
// It is not an os.Process: the first use of that forks a child only to find out what the
// kernel can do, which takes a good part of a millisecond at every start.
type process struct {
	pid    int
	own    *helpers
	mu     sync.Mutex
	reaped bool
}

// startProcess starts the program at path with the descriptors that this process's caller
// opened for the command, and with the pipes from the descriptor first on.
func startProcess(own *helpers, path, name string, env []string, first int, pipes ...*os.File) (*process, error) {
	attr := &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}}
	const closed = ^uintptr(0)
	for fd := len(attr.Files); fd < first; fd++ {
		if proc.Inherited(fd) {
			attr.Files = append(attr.Files, uintptr(fd))
		} else {
			attr.Files = append(attr.Files, closed)
		}
	}
	for _, f := range pipes {
		attr.Files = append(attr.Files, f.Fd()) // Fd makes it blocking: the child has no poller
	}
	pid, err := own.start(path, []string{name}, attr)
	return &process{pid: pid, own: own}, err
}

// lowest is the first descriptor after the standard ones.
const lowest = 3

// unused returns the first of n consecutive descriptors, after the standard ones, that the
// caller has not opened: the command gets all that the caller has opened.
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
		_ = syscall.Kill(p.pid, sig) // not reaped, so its id is still its own
	}
}

// killChildren kills the children of the process, and reports whether it may still have some: it
// has not been reaped.
func (p *process) killChildren() bool {
	children, _ := proc.ChildrenOf(p.pid)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return false
	}
	for _, child := range children {
		proc.KillChild(child, p.pid)
	}
	return true
}

// wait waits for the end of the process and reaps it, but not while it is signalled.
func (p *process) wait() syscall.WaitStatus {
	proc.AwaitEnd(p.pid)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	return p.own.await(p.pid)
}
