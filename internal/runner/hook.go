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
	ended := make(chan syscall.WaitStatus, 1)
	go func() { ended <- r.helpers.await(pid) }()
	over := time.NewTimer(limit)
	defer over.Stop()
	var killed error
	for {
		select {
		case status := <-ended:
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
	const limit = 50 * time.Millisecond
	for end := Now() + limit; !h.starts.TryLock(); time.Sleep(time.Millisecond) {
		if Now() >= end {
			return func() {}
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
// become children of this process as their parents die: for a second, since one
// may sleep uninterruptibly. Where nobody adopts there is none to wait for.
func (h *helpers) awaitGroup(pid int) {
	for range 100 {
		h.Lock()
		reaped, err := syscall.Wait4(-pid, nil, syscall.WNOHANG, nil)
		h.Unlock()
		if err == syscall.ECHILD {
			return
		}
		if reaped == 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// await reaps the helper at its end. Where children cannot be waited for without
// being reaped, it looks again and again.
func (h *helpers) await(pid int) syscall.WaitStatus {
	for {
		proc.AwaitEnd(pid)
		if status, ok := h.reap(pid); ok {
			return status
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (h *helpers) reap(pid int) (status syscall.WaitStatus, ended bool) {
	h.Lock()
	defer h.Unlock()
	got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	if got == 0 || err == syscall.EINTR {
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
	for ; ; <-died {
		for h.reapSome() {
		}
	}
}

// reapSome reports whether it has reaped any.
func (h *helpers) reapSome() (some bool) {
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
			some = some || reaped == pid
		}
	}
	return some
}
