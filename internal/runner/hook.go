package runner

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/proc"
)

const (
	// startLimit is how long a kill waits for a helper that is starting.
	startLimit = 50 * time.Millisecond
	// groupLimit is how long a hook waits for the rest of its killed process group.
	groupLimit = time.Second
)

// helpers are the children that this process has started itself and not reaped
// yet. It is locked while other children are signalled or reaped, so that a helper
// is not taken for one of them and no id is used again meanwhile.
type helpers struct {
	sync.Mutex
	// starts is held for reading from the fork of a helper until its id is in pids. That takes
	// as long as the exec does, and an exec as long as the file system.
	starts sync.RWMutex
	pids   []int
	// before were children of this process before it was leaderrun, and are spared
	// as long as they have not been reaped: then their ids may be used again.
	before []int
}

// spares reports whether the child is none that a guard may leave. The caller
// holds h.
func (h *helpers) spares(pid int) bool { return h.has(pid) || slices.Contains(h.before, pid) }

// has reports whether the child is a helper. The caller holds h.
func (h *helpers) has(pid int) bool { return slices.Contains(h.pids, pid) }

// RunHook runs a program beside the command, with this process's standard error
// for its output, and returns when it has ended. When cut is closed, or the limit
// is over, its process group is killed. The errors are those of the system, or
// say how it ended.
func (r *Runner) RunHook(path string, args, env []string, limit time.Duration, cut <-chan struct{}) error {
	_ = proc.AdoptOrphans() // of the helper, to know when a killed group is gone
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	stderr := uintptr(syscall.Stderr)
	attr := &syscall.ProcAttr{Env: env, Files: []uintptr{null.Fd(), stderr, stderr}, Sys: &syscall.SysProcAttr{Setpgid: true}}
	pid, err := r.helpers.start(path, args, attr)
	if err != nil {
		return err
	}
	var status syscall.WaitStatus
	ended := make(chan struct{})
	go func() { status = r.helpers.await(pid); close(ended) }()
	over := time.NewTimer(limit)
	defer over.Stop()
	var killed error
	for {
		select {
		case <-ended:
			if killed != nil {
				r.helpers.awaitGroup(pid)
			}
			return cmp.Or(killed, failure(status))
		case <-over.C:
			if killed != nil { // it sleeps uninterruptibly
				return killed
			}
			killed = fmt.Errorf("killed after %s", limit)
		case <-cut:
			killed, cut = errors.New("killed, since leaderrun ends"), nil
		}
		r.helpers.kill(pid)
		over.Reset(time.Second)
	}
}

// start starts a helper.
func (h *helpers) start(path string, args []string, attr *syscall.ProcAttr) (int, error) {
	h.starts.RLock()
	defer h.starts.RUnlock()
	pid, err := syscall.ForkExec(path, args, attr)
	if err == nil {
		h.Lock()
		h.pids = append(h.pids, pid)
		h.Unlock()
	}
	return pid, err
}

// pauseStarts lets no helper start until resume is called. It waits for one that is starting,
// but no longer than a kill can wait: a helper that hangs in its exec may be killed with the tree.
func (h *helpers) pauseStarts() (resume func()) {
	for over := time.After(startLimit); !h.starts.TryLock(); {
		select {
		case <-over:
			return func() {}
		case <-time.After(time.Millisecond):
		}
	}
	return h.starts.Unlock
}

// failure says how a program ended, unless well.
func failure(status syscall.WaitStatus) error {
	switch {
	case status.Signaled():
		return errors.New("it died of a signal: " + status.Signal().String())
	case status.ExitStatus() != 0:
		return fmt.Errorf("exit status %d", status.ExitStatus())
	}
	return nil
}

// kill kills the helper's process group; while the helper is not reaped, its id
// is nobody else's.
func (h *helpers) kill(pid int) {
	h.Lock()
	defer h.Unlock()
	if h.has(pid) {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
}

// awaitGroup waits for the rest of a killed helper's process group, whose members
// become children of this process as their parents die: not for ever, since one
// may sleep uninterruptibly. Where nobody adopts there is none to wait for.
func (h *helpers) awaitGroup(pid int) {
	for over := time.After(groupLimit); !h.reapGroup(pid); {
		select {
		case <-over:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// reapGroup reaps what has ended of a process group, and reports whether no child of it is left.
func (h *helpers) reapGroup(pid int) (none bool) {
	h.Lock()
	defer h.Unlock()
	for {
		reaped, err := syscall.Wait4(-pid, nil, syscall.WNOHANG, nil)
		switch {
		case err != nil: // ECHILD
			return true
		case reaped == 0:
			return false
		}
	}
}

// await reaps the helper at its end.
func (h *helpers) await(pid int) (status syscall.WaitStatus) {
	for ended := false; !ended; {
		proc.AwaitEnd(pid)
		status, ended = h.reap(pid)
	}
	return status
}

// reap reports whether the helper has ended, and how.
func (h *helpers) reap(pid int) (status syscall.WaitStatus, ended bool) {
	h.Lock()
	defer h.Unlock()
	if running, _ := syscall.Wait4(pid, &status, syscall.WNOHANG, nil); running == 0 {
		return status, false
	}
	h.pids = slices.DeleteFunc(h.pids, func(p int) bool { return p == pid })
	return status, true
}

// reapOthers reaps, for ever, whatever child ends that is none of these: a process
// with the id 1 inherits every orphan of its container, not only those of its
// command.
func (h *helpers) reapOthers() {
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	h.reapSome()
	for range died {
		h.reapSome()
	}
}

// reapSome reaps those that have ended.
func (h *helpers) reapSome() {
	h.starts.Lock()
	defer h.starts.Unlock()
	h.Lock()
	defer h.Unlock()
	pids, _ := proc.ChildrenOf(os.Getpid())
	for _, pid := range pids {
		if !h.has(pid) {
			reaped, _ := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			if reaped == pid {
				h.before = slices.DeleteFunc(h.before, func(p int) bool { return p == pid })
			}
		}
	}
}
