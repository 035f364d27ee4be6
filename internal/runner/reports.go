package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/guard"
	"github.com/leaderrun/leaderrun/internal/proc"
)

// listen receives the reports of a guard until its end.
func (r *Runner) listen(h *held) {
	defer h.reports.Close()
	defer close(h.over)
	b := make([]byte, guard.ReportLen)
	for {
		_, err := io.ReadFull(h.reports, b)
		emit := r.reportOf(h, err)
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
			emit(Report{Kind: Ended, Status: syscall.WaitStatus(report.Value), Left: h.someChild()})
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

// reportOf returns the receiver of a guard's reports. A guard that has died before
// the start has none: another one replaces it, after a second, since that one may die
// as well.
func (r *Runner) reportOf(h *held, err error) func(Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && h.report == nil && r.now == h && !r.closed {
		r.now = nil
		h.dismiss()
		time.AfterFunc(time.Second, r.prepareAgain)
	}
	return h.report
}

func (r *Runner) prepareAgain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == nil { // no start was sooner
		_, _ = r.prepared()
	}
}

// someChild names a child of the guard.
func (h *held) someChild() string {
	pids, _ := proc.ChildrenOf(h.guard.pid)
	for _, pid := range pids {
		if name := nameOf(pid); name != "" {
			return fmt.Sprintf("process %d (%s)", pid, name)
		}
	}
	return "a process that has just ended"
}

// reportUnkillable reports one of the processes that have been sent SIGKILL and
// have not ended.
func (h *held) reportUnkillable(pids []int) {
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

// whyAlive says why a process lives after its SIGKILL, by its proc_pid_stat(5) and what
// comes of a signal to it. It is "" for one that has ended; a zombie has.
func whyAlive(stat string, signalled error) string {
	_, rest, _ := strings.Cut(stat[max(0, strings.LastIndex(stat, ") ")):], " ") // the name may hold brackets
	switch state, _, _ := strings.Cut(rest, " "); {
	case strings.Contains("ZX", state): // or there is none
		return ""
	case errors.Is(signalled, syscall.EPERM):
		return "another user's, EPERM"
	case state == "D":
		return "in uninterruptible sleep, D"
	default:
		return "state " + state
	}
}

// nameOf is what people call a process: the program as it was started, or the
// script that it runs. The kernel knows no more than 15 bytes of either.
func nameOf(pid int) string {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	name := strings.TrimSuffix(string(comm), "\n")
	argv, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // empty for a zombie
	program, rest, _ := strings.Cut(string(argv), "\x00")
	script, _, _ := strings.Cut(rest, "\x00")
	switch {
	case program == "":
		return name
	case script != "" && strings.HasPrefix(filepath.Base(script), name):
		return filepath.Base(script)
	}
	return filepath.Base(program)
}

// guardDied follows the death of the guard: the command died with it, and the
// elector has adopted the guard's children.
func (h *held) guardDied(emit func(Report)) {
	if h.left.Load() {
		h.guard.wait()
		return
	}
	status := h.guard.wait()
	how := fmt.Sprintf("exit status %d", status.ExitStatus())
	if status.Signaled() {
		how = status.Signal().String()
	}
	h.killLeftBehind()
	died := errors.New("the guard process died: " + how)
	if h.pid == 0 {
		died = errors.New("the guard process died before it reported a start: " + how)
	}
	if h.pid == 0 && status.ExitStatus() == guard.Refused { // any other may have started the command
		emit(Report{Kind: Failed, Err: fmt.Errorf("%w: %w", ErrGuard, ErrRefused)})
		return
	}
	emit(Report{Kind: Gone, Err: died})
}
