package runner

import (
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/guard"
	"github.com/leaderrun/leaderrun/internal/proc"
)

// guards are the guards that this process has started and not reaped yet. It is locked while one
// starts, which takes as long as an exec of this program, and while any child is signalled or
// reaped: so none is taken for a guard or the other way round, and no id is used again meanwhile.
type guards struct {
	sync.Mutex
	pids []int
	// before are the children that this process had before its program was executed. They
	// are spared until they have been reaped; then their ids may be used again.
	before []int
}

// spares reports whether the child cannot be one that a guard has left. The caller holds the
// lock.
func (g *guards) spares(pid int) bool { return g.has(pid) || slices.Contains(g.before, pid) }

// has reports whether the child is a guard. The caller holds the lock.
func (g *guards) has(pid int) bool { return slices.Contains(g.pids, pid) }

// process is a guard. It can be signalled from any goroutine, and is never signalled once it is
// reaped.
//
// It is not an os.Process: the first use of that forks a child only to find out what the
// kernel can do, which takes a good part of a millisecond at every start.
type process struct {
	pid int
	own *guards
}

// startProcess starts the program at path as a guard with the standard descriptors in files, with
// those that this process's caller opened for the command, and with the pipes from the
// descriptor first on.
func startProcess(own *guards, path string, env []string, files []uintptr, sys *syscall.SysProcAttr, first int, pipes ...*os.File) (*process, error) {
	const closed = ^uintptr(0)
	for fd := len(files); fd < first; fd++ {
		if proc.Inherited(fd) {
			files = append(files, uintptr(fd))
		} else {
			files = append(files, closed)
		}
	}
	for _, f := range pipes {
		files = append(files, f.Fd()) // Fd makes it blocking: the child has no poller
	}
	return own.start(path, []string{guard.Name}, &syscall.ProcAttr{Env: env, Files: files, Sys: sys})
}

func (g *guards) start(path string, args []string, attr *syscall.ProcAttr) (*process, error) {
	g.Lock()
	defer g.Unlock()
	pid, err := syscall.ForkExec(path, args, attr)
	if err == nil {
		g.pids = append(g.pids, pid)
	}
	return &process{pid: pid, own: g}, err
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
	p.own.Lock()
	defer p.own.Unlock()
	if p.own.has(p.pid) {
		_ = syscall.Kill(p.pid, sig) // not reaped, so its id is still its own
	}
}

// killChildren kills the children of the process, and reports whether it may still have some: it
// has not been reaped.
func (p *process) killChildren() bool {
	children, _ := proc.ChildrenOf(p.pid)
	p.own.Lock()
	defer p.own.Unlock()
	if !p.own.has(p.pid) {
		return false
	}
	for _, child := range children {
		proc.KillChild(child, p.pid)
	}
	return true
}

// wait waits for the end of the process, and reaps it.
func (p *process) wait() (status syscall.WaitStatus) {
	for ended := false; !ended; {
		proc.AwaitEnd(p.pid)
		status, ended = p.reap()
	}
	return status
}

// reap reaps the process if it has ended, and reports that and how it ended.
func (p *process) reap() (status syscall.WaitStatus, ended bool) {
	p.own.Lock()
	defer p.own.Unlock()
	if running, _ := syscall.Wait4(p.pid, &status, syscall.WNOHANG, nil); running == 0 {
		return status, false
	}
	p.own.pids = slices.DeleteFunc(p.own.pids, func(pid int) bool { return pid == p.pid })
	return status, true
}

// reapOthers reaps all other children when they end, for ever: the process with the id 1
// inherits all orphans of its container, not only those of its command.
func (g *guards) reapOthers() {
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	g.reapSome(nil)
	for range died {
		g.reapSome(nil)
	}
}

// reapLeft reaps what hooks have left and has ended. Each hook has a session of its own, other than what
// this process itself starts and waits for.
func (g *guards) reapLeft() {
	own := proc.SessionOf(os.Getpid())
	g.reapSome(func(pid int) bool {
		session := proc.SessionOf(pid)
		return session != 0 && session != own
	})
}

// reapSome reaps the children that have ended, are no guards, and are chosen; if chosen is nil, all are.
func (g *guards) reapSome(chosen func(pid int) bool) {
	g.Lock()
	defer g.Unlock()
	pids, _ := proc.ChildrenOf(os.Getpid())
	for _, pid := range pids {
		if g.has(pid) || chosen != nil && !chosen(pid) {
			continue
		}
		if reaped, _ := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); reaped == pid {
			g.before = slices.DeleteFunc(g.before, func(p int) bool { return p == pid })
		}
	}
}
