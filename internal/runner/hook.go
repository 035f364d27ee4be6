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
	// startLimit is how long a kill waits while a helper starts.
	startLimit = 50 * time.Millisecond
	// groupLimit is how long RunHook waits for the rest of a killed process group.
	groupLimit = time.Second
)

// helpers are the children that this process has started itself and not reaped yet. It is
// locked while other children are signalled or reaped, so that none of them is taken for
// a helper or the other way round, and no id is used again meanwhile.
type helpers struct {
	sync.Mutex
	// starts is read-locked from the fork of a helper until its id is in pids. That takes as
	// long as the exec, which may hang with its file system.
	starts sync.RWMutex
	pids   []int
	// before are the children that this process had before its program was executed. They
	// are spared until they have been reaped; then their ids may be used again.
	before []int
}

// spares reports whether the child cannot be one that a guard has left. The caller holds the
// lock.
func (h *helpers) spares(pid int) bool { return h.has(pid) || slices.Contains(h.before, pid) }

// has reports whether the child is a helper. The caller holds the lock.
func (h *helpers) has(pid int) bool { return slices.Contains(h.pids, pid) }

// RunHook runs a program beside the command, with its output to this process's standard
// error, and returns when it has ended. When cut is closed, or after limit, its process group
// is killed. An error is one of the system, or says how the program ended.
func (r *Runner) RunHook(path string, args, env []string, limit time.Duration, cut <-chan struct{}) error {
	_ = proc.AdoptOrphans() // the helper's, to know when a killed group is gone
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	stderr := uintptr(syscall.Stderr)
	// In a session of its own no terminal stops it, though stty tostop may be set.
	attr := &syscall.ProcAttr{Env: env, Files: []uintptr{null.Fd(), stderr, stderr}, Sys: &syscall.SysProcAttr{Setsid: true}}
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
			if killed != nil { // it is in uninterruptible sleep
				return killed
			}
			killed = fmt.Errorf("killed after %s", limit)
		case <-cut:
			killed, cut = errors.New("killed, because leaderrun ends"), nil
		}
		r.helpers.kill(pid)
		over.Reset(time.Second)
	}
}

// start starts a helper.
func (h *helpers) start(path string, args []string, attr *syscall.ProcAttr) (int, error) {
	h.starts.RLock()
	defer h.starts.RUnlock()
	pid, err := proc.ForkExec(path, args, attr)
	if err == nil {
		h.Lock()
		h.pids = append(h.pids, pid)
		h.Unlock()
	}
	return pid, err
}

// pauseStarts keeps helpers from starting until resume is called. It waits for a helper that is
// starting, but no longer than a kill can wait: a helper whose exec hangs may be killed with
// the tree.
func (h *helpers) pauseStarts() (resume func()) {
	if !poll(startLimit, h.starts.TryLock) {
		return func() {}
	}
	return h.starts.Unlock
}

// poll calls try once a millisecond until it succeeds, for limit at most, and reports whether it
// did.
func poll(limit time.Duration, try func() bool) bool {
	for over := time.After(limit); !try(); {
		select {
		case <-over:
			return false
		case <-time.After(time.Millisecond):
		}
	}
	return true
}

// failure returns an error that says how a program ended, nil if it succeeded.
func failure(status syscall.WaitStatus) error {
	switch {
	case status.Signaled():
		return errors.New("it died of a signal: " + status.Signal().String())
	case status.ExitStatus() != 0:
		return ExitStatus(status.ExitStatus())
	}
	return nil
}

// ExitStatus is the error of a program that ended by itself, but with another status than 0.
type ExitStatus int

func (s ExitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// kill kills the helper's process group. Until the helper is reaped, its id cannot belong to
// another process.
func (h *helpers) kill(pid int) {
	h.Lock()
	defer h.Unlock()
	if h.has(pid) {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
}

// awaitGroup waits for the rest of a killed helper's process group. Its members become
// children of this process when their parents die. It waits for groupLimit at most, since a
// process may be in uninterruptible sleep. Without subreapers there is nothing to wait for.
func (h *helpers) awaitGroup(pid int) {
	poll(groupLimit, func() bool { return h.reapGroup(pid) })
}

// reapGroup reaps the dead children in a process group, and reports whether no child is left
// in it.
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

// await waits for the end of the helper, and reaps it.
func (h *helpers) await(pid int) (status syscall.WaitStatus) {
	for ended := false; !ended; {
		proc.AwaitEnd(pid)
		status, ended = h.reap(pid)
	}
	return status
}

// reap reaps the helper if it has ended, and reports that and how it ended.
func (h *helpers) reap(pid int) (status syscall.WaitStatus, ended bool) {
	h.Lock()
	defer h.Unlock()
	if running, _ := syscall.Wait4(pid, &status, syscall.WNOHANG, nil); running == 0 {
		return status, false
	}
	h.pids = slices.DeleteFunc(h.pids, func(p int) bool { return p == pid })
	return status, true
}

// reapOthers reaps all other children when they end, for ever: the process with the id 1
// inherits all orphans of its container, not only those of its command.
func (h *helpers) reapOthers() {
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	h.reapSome()
	for range died {
		h.reapSome()
	}
}

// reapSome reaps the other children that have ended.
func (h *helpers) reapSome() {
	h.starts.Lock()
	defer h.starts.Unlock()
	h.Lock()
	defer h.Unlock()
	pids, _ := proc.ChildrenOf(os.Getpid())
	for _, pid := range pids {
		if h.has(pid) {
			continue
		}
		if reaped, _ := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); reaped == pid {
			h.before = slices.DeleteFunc(h.before, func(p int) bool { return p == pid })
		}
	}
}
