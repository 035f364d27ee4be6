package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/guard"
	"github.com/leaderrun/leaderrun/internal/proc"
)

// listen receives a guard's reports until the guard ends.
func (r *Runner) listen(h *guarded) {
	defer h.reports.Close()
	defer h.leash.Close()
	defer close(h.over)
	b := make([]byte, guard.ReportLen)
	for {
		_, err := io.ReadFull(h.reports, b)
		emit := r.receiver(h, err)
		if emit == nil {
			return
		}
		if err != nil {
			h.guardDied(emit)
			return
		}
		h.heard.Store(true)
		report := guard.DecodeReport(b)
		switch report.Kind {
		case guard.ReportStarted:
			h.pid = int(report.Value)
			emit(Report{Kind: Started, Pid: h.pid})
		case guard.ReportEnded:
			emit(Report{Kind: Ended, Status: syscall.WaitStatus(report.Value), Left: h.describeChild()})
		case guard.ReportFailed:
			emit(Report{Kind: Failed, Err: syscall.Errno(report.Value)})
			h.guard.wait()
			return
		case guard.ReportGone, guard.ReportExpired:
			emit(Report{Kind: Gone, Status: syscall.WaitStatus(report.Value), Expired: report.Kind == guard.ReportExpired})
			h.guard.wait()
			return
		}
	}
}

// receiver returns the function that gets the guard's reports, nil before the start. If err
// says that the guard died before the start, another guard replaces it, but only after a
// second: that one may die as well.
func (r *Runner) receiver(h *guarded, err error) func(Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && h.report == nil && r.current == h && !r.closed {
		r.current = nil
		h.dismiss()
		time.AfterFunc(time.Second, r.prepareAgain)
	}
	return h.report
}

func (r *Runner) prepareAgain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == nil { // no start has replaced it
		_, _ = r.prepared()
	}
}

// describeChild returns a text about one child of the guard.
func (h *guarded) describeChild() string {
	pids, _ := proc.ChildrenOf(h.guard.pid)
	for _, pid := range pids {
		if name := nameOf(pid); name != "" {
			return fmt.Sprintf("process %d (%s)", pid, name)
		}
	}
	return "one that has ended since, or that /proc hides (hidepid)"
}

// reportUnkillable reports one of the processes that got SIGKILL and have not ended.
func (h *guarded) reportUnkillable(pids []int) {
	if h.report == nil {
		return
	}
	for _, pid := range pids {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if why := whyAlive(string(stat), syscall.Kill(pid, 0)); why != "" {
			h.report(Report{Kind: Unkillable, Left: fmt.Sprintf("process %d (%s): %s", pid, nameOf(pid), why)})
			return
		}
	}
}

// whyAlive says why a process lives after its SIGKILL, by its proc_pid_stat(5) and the result
// of a signal to it. It returns "" for a process that has ended, such as a zombie.
func whyAlive(stat string, signalled error) string {
	_, rest, _ := strings.Cut(stat[max(0, strings.LastIndex(stat, ") ")):], " ") // the name may contain parentheses
	switch state, _, _ := strings.Cut(rest, " "); {
	case strings.Contains("ZX", state): // true also for ""
		return ""
	case errors.Is(signalled, syscall.EPERM):
		return "another user's, EPERM"
	case state == "D":
		return "in uninterruptible sleep, D"
	default:
		return "state " + state
	}
}

// nameOf returns the kernel's name of a process, at most 15 bytes of it. To read its command line
// may block: a process that maps a file of an NFS server that does not answer holds the lock of
// the memory that the command line is in, and then no report of the guard would be heard.
func nameOf(pid int) string {
	comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // it may be gone
	return strings.TrimSuffix(string(comm), "\n")
}

// guardDied handles the death of the guard: the command died with it, and the elector has
// adopted the guard's children.
func (h *guarded) guardDied(emit func(Report)) {
	status := h.guard.wait()
	if h.left.Load() {
		return
	}
	const runtimeFailed = 2
	how := fmt.Sprintf("exit status %d", status.ExitStatus())
	switch {
	case status.Signaled():
		how = status.Signal().String()
	case status.ExitStatus() == runtimeFailed:
		how = "Go's runtime ended it, for lack of processes (ulimit -u) or memory"
	}
	if !h.hook { // a hook dies with its group; other children may be what earlier hooks left
		h.killLeftBehind()
	}
	died := errors.New("the guard process died: " + how)
	if h.pid == 0 {
		died = errors.New("the guard process died before it reported a start: " + how)
	}
	if h.pid == 0 && status.ExitStatus() == guard.Refused { // with another status it may have started the command
		emit(Report{Kind: Failed, Err: fmt.Errorf("%w: %w", ErrGuard, ErrRefused)})
		return
	}
	emit(Report{Kind: Gone, Err: died})
}
