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

	"github.com/leaderrun/leaderrun/internal/guard"
	"github.com/leaderrun/leaderrun/internal/proc"
)

// hookPatience is how long RunHook waits for the end of a hook that is being killed.
const hookPatience = time.Second

// helpers are the guards that this process has started and not reaped yet. It is locked while one
// starts, and while other children are signalled or reaped: so none of them is taken for a guard
// or the other way round, and no id is used again meanwhile.
type helpers struct {
	sync.Mutex
	pids []int
	// before are the children that this process had before its program was executed. They
	// are spared until they have been reaped; then their ids may be used again.
	before []int
}

// spares reports whether the child cannot be one that a guard has left. The caller holds the
// lock.
func (h *helpers) spares(pid int) bool { return h.has(pid) || slices.Contains(h.before, pid) }

// has reports whether the child is a guard. The caller holds the lock.
func (h *helpers) has(pid int) bool { return slices.Contains(h.pids, pid) }

// RunHook runs a program beside the command, under a guard of its own, with its output to this
// process's standard error, and returns when it has ended. When cut is closed, or after limit,
// its tree is killed. An error is one of the system, or says how the program ended.
func (r *Runner) RunHook(path string, args, env []string, limit time.Duration, cut <-chan struct{}) error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	reports := make(chan Report, 8)
	h, err := r.startHook(null.Fd(), func(rep Report) { reports <- rep })
	if err != nil {
		return fmt.Errorf("%w: %w", ErrGuard, err)
	}
	killBy := Now() + limit
	h.orders.put(guard.EncodeOrder(guard.OrderStart, int64(killBy), &guard.Command{StartBy: int64(killBy), Path: path, Args: args, Env: env}))
	over := time.NewTimer(limit + hookPatience)
	defer over.Stop()
	killed := fmt.Errorf("killed after %s", limit)
	for cutOff := false; ; {
		select {
		case rep := <-reports:
			switch {
			case rep.Kind == Ended && !cutOff && Now() < killBy: // what it left lives on
				h.left.Store(true)
				h.orders.put(guard.EncodeOrder(guard.OrderLeave, noValue, nil))
				<-h.over
				return failure(rep.Status)
			case rep.Kind == Gone && (rep.Expired || cutOff):
				return killed
			case rep.Kind == Gone || rep.Kind == Failed:
				return cmp.Or(rep.Err, failure(rep.Status))
			}
		case <-over.C: // it is in uninterruptible sleep
			return killed
		case <-cut:
			killed, cut, cutOff = errors.New("killed, because leaderrun ends"), nil, true
			go h.killTree()
			over.Reset(hookPatience)
		}
	}
}

// startHook starts the guard of a hook. Its session is its own, so that no terminal stops the
// hook: it may write there although stty tostop is set.
func (r *Runner) startHook(stdin uintptr, report func(Report)) (*guarded, error) {
	r.mu.Lock()
	closed, err := r.closed, r.prepareProcess()
	if err == nil {
		r.reserveThreads()
	}
	r.mu.Unlock() // the lease is extended while the guard starts
	switch {
	case closed:
		return nil, os.ErrClosed
	case err != nil:
		return nil, err
	}
	<-r.reserved
	return r.newGuard([]uintptr{stdin, uintptr(syscall.Stderr), uintptr(syscall.Stderr)}, &syscall.SysProcAttr{Setsid: true}, report)
}

// start starts a guard. It takes as long as an exec of this program.
func (h *helpers) start(path string, args []string, attr *syscall.ProcAttr) (int, error) {
	h.Lock()
	defer h.Unlock()
	pid, err := syscall.ForkExec(path, args, attr)
	if err == nil {
		h.pids = append(h.pids, pid)
	}
	return pid, err
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
