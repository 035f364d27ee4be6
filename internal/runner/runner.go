// Package runner holds the command from the elector's side: it starts a guard,
// gives it orders and hears its reports. If the guard dies, the elector has
// inherited the command's tree and the runner kills it.
//
// It promises that what it reports as gone is gone, and that Kill ends the tree
// also when the guard is stopped or stuck. It knows nothing of leases.
package runner

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
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
	Started    Kind = iota // Pid
	Failed                 // Err: nothing runs; ErrGuard, or a syscall.Errno that is the system's answer to the exec
	Ended                  // Status, Left: the command is over, descendants live
	Gone                   // Status, Expired, or Err when the guard died: nothing of the tree lives
	Unkillable             // Left: a process that lives a second after its SIGKILL, and why
)

// ErrGuard says that there is no guard: nothing was started, and the command is
// not to blame.
var ErrGuard = errors.New("cannot start the guard process")

// ErrRefused says, behind ErrGuard, that the system refused the guard what it needs.
var ErrRefused = errors.New("the system refused it a timer or a descriptor")

// ErrNoProc says, behind ErrGuard, that process trees cannot be seen here.
var ErrNoProc = errors.New("/proc is missing here or shows other processes, and without it no process tree can be killed")

// Report is one thing that became of the command.
type Report struct {
	Kind   Kind
	Pid    int
	Status syscall.WaitStatus
	// Expired: something lived when the guard's kill-by came. The guard may not have read
	// the last order that moves it, if this process stood still.
	Expired bool
	Left    string // one of the descendants, for people
	Err     error
}

// Now is the clock of every kill-by.
func Now() time.Duration { return time.Duration(proc.Now()) }

// killPatience is how long the guard has to answer an order to kill before it is
// killed itself and the elector does the rest. It lies below the smallest kill
// margin, 166 ms at a TTL of 1 s.
const killPatience = 100 * time.Millisecond

// noValue is that of an order without a number.
const noValue = 0

// Runner runs one command at a time. Its methods may be called from any
// goroutine, and none but Close waits for anything but a fork. Orders before the
// first start are dropped, those after the end of a tree are not read.
type Runner struct {
	path string
	args []string

	mu    sync.Mutex
	alarm *proc.Alarm
	// children are this process's.
	children *proc.Children
	now      *held // see held
	closed   bool
	helpers  helpers
	threads  int           // to reserve
	reserved chan struct{} // closed when the threads are there; nil before the first guard
}

// New returns a runner of the program at path with the argv args.
func New(path string, args []string) *Runner {
	return &Runner{path: path, args: args, threads: threads}
}

// The threads that are reserved: one for each processor, and one for each call that may
// block beside it, of signals, guards, hooks, files and messages.
const (
	threads         = 10
	threadsForHooks = 12
)

// ForHooks prepares for [Runner.RunHook] and comes before a guard is started. A hook whose
// exec hangs, as on a file system that does not answer, keeps a processor of the Go runtime,
// which does not know that the forking thread waits (vfork in syscall.ForkExec). The program
// has one (package oneprocessor), so this adds one for everything else.
func (r *Runner) ForHooks() {
	runtime.GOMAXPROCS(2)
	r.threads = threadsForHooks
}

// reserveThreads starts the threads that this process may need before there is a
// command that may use up the process limit. It begins when the first guard does, which
// takes longer to get ready; a run that starts nothing needs none.
func (r *Runner) reserveThreads() {
	if r.reserved != nil {
		return
	}
	r.reserved = make(chan struct{})
	go func() {
		proc.ReserveThreads(r.threads)
		close(r.reserved)
	}()
}

// held is one command, or the place for one, held by one guard.
type held struct {
	guard    *process
	children *proc.Children
	helpers  *helpers
	pid      int // of the command, 0 until it has started
	orders   outbox
	reports  *os.File
	report   func(Report)  // nil before the start
	over     chan struct{} // closed when the guard is reaped
	kill     sync.Once
	heard    atomic.Bool // a report, since the last order to kill
	left     atomic.Bool // its tree lives on, by Leave
}

// Prepare starts the guard ahead of the command, so that a start costs less when
// it comes. Start returns the error, if there is one. It takes as long as a fork does.
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
	if h := r.now; h != nil && h.report == nil {
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

// Start starts the command with the environment env under a guard of its own, by
// startBy or not at all, and reports what becomes of it, from another goroutine:
// Failed, or Started, perhaps Ended, and Gone.
func (r *Runner) Start(startBy, killBy time.Duration, env []string, report func(Report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, err := r.prepared()
	if err != nil {
		go report(Report{Kind: Failed, Err: fmt.Errorf("%w: %w", ErrGuard, err)})
		return
	}
	h.report = report
	group := 0
	if HasTerminal() {
		group = syscall.Getpgrp()
	}
	<-r.reserved
	r.alarm.Set(int64(killBy))
	h.orders.put(guard.EncodeOrder(guard.OrderStart, int64(killBy), &guard.Command{
		StartBy: int64(startBy), Path: r.path, Args: r.args, Env: env, Group: group,
	}))
	h.guard.signal(syscall.SIGCONT) // it may have been stopped, and knows no kill-by yet that would wake it
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
	pipes := []*os.File{theirOrders, theirReports}
	first := unused(len(pipes))
	env := append([]string{guard.Marker + "=" + strconv.Itoa(first)}, guard.Settings...)
	process, err := startProcess(&r.helpers, self(), guard.Name, env, first, pipes...)
	if err != nil {
		orders.Close()
		reports.Close()
		return nil, err
	}
	r.reserveThreads()
	h := &held{children: r.children, helpers: &r.helpers, guard: process, reports: reports, over: make(chan struct{}), orders: outbox{file: orders, filled: make(chan struct{}, 1)}}
	go h.orders.drain(h.over)
	go r.listen(h)
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
	proc.DenyAccess() // to the pipes of the orders
	before, err := proc.InheritedChildren()
	if err != nil { // an unknown child would be killed with a tree
		return err
	}
	r.helpers.Lock()
	r.helpers.before = before
	r.helpers.Unlock()
	if r.children == nil {
		if r.children, err = proc.OpenChildren(); err != nil {
			return err
		}
	}
	alarm, err := proc.NewAlarm(1) // each SIGCONT is passed on to the command
	if err != nil {
		return err
	}
	r.alarm = alarm
	if os.Getpid() == 1 {
		go r.helpers.reapOthers()
	}
	return nil
}

// Holds reports whether the process is the guard, or one of the tree below it.
func (r *Runner) Holds(pid int) bool {
	h := r.held()
	return h != nil && proc.Descends(pid, h.guard.pid)
}

// held is the last command, or the place for one; nil before the first.
func (r *Runner) held() *held {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
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

// Extend moves kill-by.
func (r *Runner) Extend(killBy time.Duration) {
	h := r.order(guard.OrderExtend, int64(killBy))
	if h == nil {
		return
	}
	h.guard.signal(syscall.SIGCONT) // it may have been stopped before it had an alarm to wake it
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alarm.Set(int64(killBy))
}

// Signal sends the signal to the command's process group, to the command alone
// when a terminal owns the group, or to what is left of the tree.
func (r *Runner) Signal(signal int) { r.signal(guard.OrderSignal, signal) }

// SignalRest sends the last signal, once the command has ended, to those that were
// not in its group.
func (r *Runner) SignalRest(signal int) { r.signal(guard.OrderSignalRest, signal) }

func (r *Runner) signal(kind guard.OrderKind, signal int) {
	if h := r.order(kind, int64(signal)); h != nil {
		h.guard.signal(syscall.SIGCONT) // it may have been stopped
	}
}

// Leave ends the guard and lets the tree live. No report follows.
func (r *Runner) Leave() {
	r.mu.Lock()
	if r.now != nil {
		r.now.left.Store(true)
	}
	r.mu.Unlock()
	r.order(guard.OrderLeave, noValue)
}

// Kill kills the whole tree: by the guard, and without it if it does not do so.
func (r *Runner) Kill() {
	if h := r.held(); h != nil {
		h.kill.Do(func() { go h.insist() })
	}
}

// insist orders the guard to kill until the tree is gone, and kills a guard that
// does not answer. One that does is at work, and nobody else would kill faster.
func (h *held) insist() {
	late := time.AfterFunc(time.Second, func() {
		pids, _ := proc.ChildrenOf(h.guard.pid)
		h.reportUnkillable(pids)
	})
	defer late.Stop()
	for {
		h.heard.Store(false)
		h.orders.put(guard.EncodeOrder(guard.OrderKill, noValue, nil))
		h.guard.signal(syscall.SIGCONT) // it may have been stopped
		select {
		case <-h.over:
			return
		case <-time.After(killPatience):
		}
		if !h.heard.Load() {
			h.guard.signal(syscall.SIGKILL)
			return
		}
	}
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
	started := h != nil && h.report != nil
	r.closed = true
	r.mu.Unlock()
	switch {
	case h == nil:
	case started:
		<-h.over
	default:
		h.dismiss()
	}
}

// dismiss ends a guard that holds nothing.
func (h *held) dismiss() {
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

// LetGo ends this process's own hold on standard input and output, which are the
// command's once it runs: a reader of its output must not wait for leaderrun.
func LetGo() { proc.Mute(0, 1) }
