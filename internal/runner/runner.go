// Package runner holds the command from the elector's side: it starts a guard,
// gives it orders and hears its reports. If the guard dies, the elector has
// inherited the command's tree and the runner kills it.
//
// It promises that what it tells as gone is gone, and that Kill ends the tree
// also when the guard is stopped or stuck. It knows nothing of leases.
package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/guard"
	"github.com/leaderrun/leaderrun/internal/proc"
)

// Kind says what became of the command.
type Kind int

const (
	Started Kind = iota // Pid
	Failed              // Err: nothing runs; ErrGuard, or a syscall.Errno that is the system's answer to the exec
	Stopped             // Signal: the command, which has a terminal, was stopped
	Ended               // Status, Left: the command is over, descendants live
	Gone                // Status, or Err when the guard died: nothing of the tree lives
)

// ErrGuard says that there is no guard: nothing was started, and the command is
// not to blame.
var ErrGuard = errors.New("cannot start the guard process")

// ErrNoProc says, behind ErrGuard, that process trees cannot be seen here.
var ErrNoProc = errors.New("/proc is missing here or shows other processes, and without it no process tree can be killed")

// Report is one thing that became of the command.
type Report struct {
	Kind   Kind
	Pid    int
	Signal syscall.Signal
	Status syscall.WaitStatus
	Left   string // one of the descendants, for people
	Err    error
}

// Now is the clock of every kill-by.
func Now() time.Duration { return time.Duration(proc.Now()) }

// killPatience is how long the guard has for a kill before it is killed itself
// and the elector does the rest. It lies below the smallest kill margin, 166 ms
// at a TTL of 1 s.
const killPatience = 100 * time.Millisecond

// Runner runs one command at a time. Its methods may be called from any
// goroutine, and none but Close waits for anything but a fork. Orders before the
// first start are dropped, those after the end of a tree are not read.
type Runner struct {
	path string
	args []string

	mu     sync.Mutex
	alarm  *proc.Alarm
	now    *held // the last one; nil before the first
	closed bool
	// strangers were children of this process before it was leaderrun.
	strangers []int
	helpers   helpers
}

// New returns a runner of the program at path with the argv args.
func New(path string, args []string) *Runner { return &Runner{path: path, args: args} }

// held is one command, or the place for one, held by one guard.
type held struct {
	guard     *process
	strangers []int
	helpers   *helpers
	pid       int // of the command, 0 until it has started
	orders    outbox
	reports   *os.File
	started   bool
	over      chan struct{} // closed when the guard is reaped
	kill      sync.Once
	// burying: the guard died and its tree is being killed; left: its tree lives
	// on, as it was told to.
	burying, left atomic.Bool
}

// Prepare starts the guard ahead of the command, so that a start costs less when
// it comes. What is wrong will be told by Start. It takes as long as a fork does.
func (r *Runner) Prepare() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.prepared()
}

// prepared is a guard that holds no command yet.
func (r *Runner) prepared() (*held, error) {
	if r.closed {
		return nil, os.ErrClosed
	}
	if h := r.now; h != nil && !h.started {
		if !proc.Ended(h.guard.pid) {
			return h, nil
		}
		r.now = nil // there may be none to take its place
		h.dismiss()
	}
	h, err := r.startGuard()
	if err == nil {
		r.now = h
	}
	return h, err
}

// Start starts the command with the environment env under a guard of its own,
// and tells what becomes of it, from another goroutine: Failed, or Started,
// perhaps Stopped and Ended, and Gone.
func (r *Runner) Start(killBy time.Duration, env []string, tell func(Report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, err := r.prepared()
	if err != nil {
		go tell(Report{Kind: Failed, Err: fmt.Errorf("%w: %w", ErrGuard, err)})
		return
	}
	h.started = true
	group := 0
	if HasTerminal() {
		group = syscall.Getpgrp()
	}
	r.alarm.Set(int64(killBy))
	h.orders.put(guard.EncodeOrder(guard.OrderStart, int64(killBy), &guard.Command{
		Path: r.path, Args: r.args, Env: env, Group: group,
	}))
	h.guard.signal(syscall.SIGCONT) // it may have been stopped, and knows no kill-by yet that would wake it
	go h.listen(tell)
}

// startGuard starts this program once more as the guard.
func (r *Runner) startGuard() (*held, error) {
	if err := r.settleIn(); err != nil {
		return nil, err
	}
	theirOrders, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirOrders.Close()
	reports, theirReports, err := os.Pipe()
	if err != nil {
		orders.Close()
		return nil, err
	}
	defer theirReports.Close()
	// A guard that crashes shows nobody a stack trace: its death is told here.
	first := unused(2)
	env := []string{guard.Marker + "=" + strconv.Itoa(first), "GOTRACEBACK=none"}
	process, err := startProcess(self(), "leaderrun-guard", env, first, theirOrders, theirReports)
	if err != nil {
		orders.Close()
		reports.Close()
		return nil, err
	}
	h := &held{strangers: r.strangers, helpers: &r.helpers, guard: process, reports: reports, over: make(chan struct{}), orders: outbox{file: orders, filled: make(chan struct{}, 1)}}
	go h.orders.drain(h.over)
	return h, nil
}

// settleIn prepares this process, once, for what a guard may leave behind: it
// adopts the tree of a guard that dies, is woken at kill-by if it is stopped, and
// reaps for the whole container where it is the container's first process.
func (r *Runner) settleIn() error {
	if r.alarm != nil {
		return nil
	}
	if !proc.ChildrenKnown() {
		return ErrNoProc
	}
	if err := proc.AdoptOrphans(); err != nil {
		return err
	}
	var err error
	if r.strangers, err = proc.InheritedChildren(); err != nil { // who is not known would be killed with a tree
		return err
	}
	alarm, err := proc.NewAlarm()
	if err != nil {
		return err
	}
	r.alarm = alarm
	if os.Getpid() == 1 {
		go proc.ReapOrphans(r.waitsFor)
	}
	return nil
}

// waitsFor reports whether the runner itself waits for the child.
func (r *Runner) waitsFor(pid int) bool {
	r.helpers.Lock()
	helper := r.helpers.has(pid)
	r.helpers.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	return helper || r.now != nil && (r.now.guard.pid == pid || r.now.burying.Load())
}

// self is this program, also when its file has been replaced since it started.
func self() string {
	const running = "/proc/self/exe"
	if _, err := os.Stat(running); err == nil {
		return running
	}
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// listen hears the guard out.
func (h *held) listen(tell func(Report)) {
	defer h.reports.Close()
	defer close(h.over)
	b := make([]byte, guard.ReportLen)
	for {
		if _, err := io.ReadFull(h.reports, b); err != nil {
			h.bury(tell)
			return
		}
		report := guard.DecodeReport(b)
		switch report.Kind {
		case guard.ReportStarted:
			h.pid = int(report.Value)
			tell(Report{Kind: Started, Pid: h.pid})
		case guard.ReportStopped:
			tell(Report{Kind: Stopped, Signal: syscall.Signal(report.Value)})
		case guard.ReportEnded:
			tell(Report{Kind: Ended, Status: syscall.WaitStatus(report.Value), Left: h.someChild()})
		case guard.ReportFailed:
			tell(Report{Kind: Failed, Err: syscall.Errno(report.Value)})
			h.guard.wait()
			return
		case guard.ReportGone:
			tell(Report{Kind: Gone, Status: syscall.WaitStatus(report.Value)})
			h.guard.wait()
			return
		}
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

// bury follows the death of the guard: the command died with it, and what it had
// adopted is the elector's now.
func (h *held) bury(tell func(Report)) {
	if h.left.Load() {
		h.guard.wait()
		return
	}
	h.burying.Store(true)
	status := h.guard.wait()
	how := fmt.Sprintf("exit status %d", status.ExitStatus())
	if status.Signaled() {
		how = status.Signal().String()
	}
	h.killLeftBehind()
	died := errors.New("the guard process died: " + how)
	if h.pid == 0 {
		died = errors.New("the guard process died before it told of a start: " + how)
	}
	if h.pid == 0 && status.ExitStatus() == guard.Refused { // any other may have started the command
		tell(Report{Kind: Failed, Err: fmt.Errorf("%w: %w", ErrGuard, died)})
		return
	}
	tell(Report{Kind: Gone, Err: died})
}

// Extend moves kill-by.
func (r *Runner) Extend(killBy time.Duration) {
	r.order(guard.OrderExtend, int64(killBy))
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now != nil {
		r.alarm.Set(int64(killBy))
	}
}

// Signal sends the signal to the command's process group, to the command alone
// when a terminal owns the group, or to what is left of the tree.
func (r *Runner) Signal(signal int) {
	if h := r.order(guard.OrderSignal, int64(signal)); h != nil {
		h.guard.signal(syscall.SIGCONT) // it may have been stopped
	}
}

// Leave ends the guard and lets the tree live. Nothing more is told.
func (r *Runner) Leave() {
	r.mu.Lock()
	if r.now != nil {
		r.now.left.Store(true)
	}
	r.mu.Unlock()
	r.order(guard.OrderLeave, 0)
}

// Kill kills the whole tree: by the guard, and without it if it does not do so.
func (r *Runner) Kill() {
	h := r.order(guard.OrderKill, 0)
	if h == nil {
		return
	}
	h.guard.signal(syscall.SIGCONT) // it may have been stopped
	h.kill.Do(func() {
		time.AfterFunc(killPatience, func() { h.guard.signal(syscall.SIGKILL) })
	})
}

func (r *Runner) order(kind guard.OrderKind, value int64) *held {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now != nil {
		r.now.orders.put(guard.EncodeOrder(kind, value, nil))
	}
	return r.now
}

// Close ends a guard that holds no command and returns when the last guard, if
// there was one, has been reaped.
func (r *Runner) Close() {
	r.mu.Lock()
	h := r.now
	r.closed = true
	r.mu.Unlock()
	switch {
	case h == nil:
	case h.started:
		<-h.over
	default:
		h.dismiss()
	}
}

// dismiss ends a guard that holds nothing.
func (h *held) dismiss() {
	close(h.over)
	h.guard.signal(syscall.SIGKILL) // it may be stopped
	h.guard.wait()
	h.orders.file.Close()
	h.reports.Close()
}

// HasTerminal reports whether this process has a controlling terminal.
func HasTerminal() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	_ = tty.Close()
	return true
}

// StopSelf stops this process as the terminal has stopped the command, so that
// the shell sees a stopped job. Nobody renews meanwhile: unless the job goes on
// in time, the lease runs out, and the alarm of kill-by wakes this process up.
func StopSelf() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) }

// LetGo ends this process's own hold on standard input and output, which are the
// command's once it runs: a reader of its output must not wait for leaderrun.
func LetGo() { proc.Mute(0, 1) }
