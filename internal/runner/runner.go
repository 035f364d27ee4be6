// Package runner is the elector's side of the guard: it starts a guard, gives it orders and
// receives its reports. If the guard dies, the elector inherits the command's tree, and the
// runner kills it. Hooks run under guards of their own.
//
// Promise: a tree is reported as gone only if it is gone, and Kill ends the tree even if the
// guard is stopped or stuck. Not promised: what package guard does not promise. It knows
// nothing of leases.
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

// Kind is the kind of a report. The comments say which fields each kind has.
type Kind int

const (
	Started    Kind = iota // Pid
	Failed                 // Err: nothing runs; ErrGuard, or the syscall.Errno of the exec
	Ended                  // Status, Left: the command has ended, descendants live
	Gone                   // Status, Expired, or Err if the guard died: nothing of the tree lives
	Unkillable             // Left: a process that still lives a second after its SIGKILL, and why
)

// ErrGuard says that there is no guard: nothing was started, and that is not because of the
// command.
var ErrGuard = errors.New("cannot start the guard process")

// ErrRefused says that the system refused this process or the guard what it needs. It is
// wrapped with ErrGuard.
var ErrRefused = errors.New("the system refused it a timer, a descriptor or a call")

// ErrFewProcesses says that the limit of processes, in which each thread counts, is too low for
// leaderrun alone. It is wrapped with ErrGuard.
var ErrFewProcesses = errors.New("leaderrun needs 40 processes and threads, and fewer are allowed")

// ErrFewFiles says the same of the limit of open files.
var ErrFewFiles = errors.New("leaderrun needs 32 open files, and fewer are allowed")

// ErrNoProc says that process trees cannot be seen here. It is wrapped with ErrGuard.
var ErrNoProc = errors.New("/proc is missing here or shows other processes, and without it no process tree can be killed")

// ErrUnkillable says that this process could not kill a command that has changed its user. It is
// wrapped with ErrGuard.
var ErrUnkillable = errors.New("a command that changes its user could not be killed: leaderrun has the capability SETUID, but not KILL")

// Report is one event of the command.
type Report struct {
	Kind   Kind
	Pid    int
	Status syscall.WaitStatus
	// Expired: something lived at the guard's kill-by. If this process was stopped, the
	// guard may not have got the last order that moves kill-by.
	Expired bool
	Left    string // names one of the descendants, for people
	Err     error
}

// Now is the clock of all times of this package.
func Now() time.Duration { return time.Duration(proc.Now()) }

// killPatience is how long the guard may take to answer an order to kill. Then it is killed,
// and the elector kills the tree. It is below the smallest kill margin, which is 166 ms at a
// TTL of 1 s.
const killPatience = 100 * time.Millisecond

// wakings is how often the alarm continues this process, every 20 ms from kill-by on: a command that
// has stopped it again and again dies with its guard, and the rest of the tree is then this process's.
const wakings = 13

// killAgain is the pause between kills of the children of a guard that does not die.
const killAgain = 10 * time.Millisecond

// noValue is the value of an order that needs none.
const noValue = 0

// Runner runs one command at a time. Its methods may be called from any goroutine. They only
// wait for a fork at most, except Close. Orders before the first start are dropped, and orders
// after the end of a tree have no effect.
type Runner struct {
	path string
	args []string

	mu    sync.Mutex
	alarm *proc.Alarm
	// children are the children of this process.
	children *proc.Children
	current  *guarded // the last guard; nil before the first one, and after one that died idle
	closed   bool
	guards   guards
	reserved chan struct{} // closed when the threads exist; nil before the first guard
}

// New returns a runner for the program at path. args is the argv, which begins with the name.
func New(path string, args []string) *Runner {
	return &Runner{path: path, args: args}
}

// reserveThreads starts the threads that this process may need, before a command can use up
// the process limit: one for each processor, and one for each call that may block beside it,
// of signals, guards, files and messages. It runs while the first guard starts, which
// takes longer. A run that starts nothing needs none.
//
// There are two processors, even on a machine with one: until the exec of a guard the forking thread
// keeps its processor (vfork in syscall.ForkExec), and the lease is renewed meanwhile. With more
// processors the number of threads would not be bounded.
func (r *Runner) reserveThreads() {
	if r.reserved != nil {
		return
	}
	r.reserved = make(chan struct{})
	go func() {
		const processors, threads = 2, 10
		runtime.GOMAXPROCS(processors)
		proc.ReserveThreads(threads)
		close(r.reserved)
	}()
}

// guarded is a guard and its command, which may not have started yet.
type guarded struct {
	guard    *process
	children *proc.Children
	hook     bool // the tree is a hook's
	pid      int  // of the command, 0 until it has started
	orders   outbox
	reports  *os.File
	leash    *os.File      // its end kills the command
	report   func(Report)  // nil before the start
	over     chan struct{} // closed when the guard is reaped
	kill     sync.Once
	heard    atomic.Bool // there was a report since the last order to kill
	left     atomic.Bool // Leave was called: the tree lives on
}

// Prepare starts the guard before the command, to make Start quicker. If that fails, Start
// reports the error. It takes as long as a fork.
func (r *Runner) Prepare() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.prepared()
}

// prepared returns a guard without a command, and starts one if there is none.
func (r *Runner) prepared() (*guarded, error) {
	if r.closed {
		return nil, os.ErrClosed
	}
	if h := r.current; h != nil && h.report == nil {
		if !proc.Ended(h.guard.pid) {
			return h, nil
		}
		r.current = nil // a new one may fail to start
		h.dismiss()
	}
	h, err := r.startGuard([]uintptr{0, 1, 2}, nil)
	if err == nil {
		r.current = h
	}
	return h, err
}

// Start starts the command with the environment env under its own guard, but not after
// startBy; its tree is dead by killBy. Both are times of Now. It calls report from another
// goroutine, with Failed, or with Started, perhaps Ended, and Gone. If this process dies, the
// guard's process becomes an ender once the tree is gone, with ender as what it is told, unless
// that is empty.
func (r *Runner) Start(startBy, killBy time.Duration, env []string, ender string, report func(Report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, err := r.prepared()
	if err != nil {
		go report(Report{Kind: Failed, Err: fmt.Errorf("%w: %w", ErrGuard, err)})
		return
	}
	h.report = report
	<-r.reserved
	r.alarm.Set(int64(killBy))
	h.order(guard.OrderStart, int64(killBy), &guard.Command{
		StartBy: int64(startBy), Path: r.path, Args: r.args, Env: env, Ender: ender, Shared: HasTerminal(),
	})
}

// startGuard starts this program once more as a guard, with the standard descriptors for its command.
func (r *Runner) startGuard(files []uintptr, sys *syscall.SysProcAttr) (*guarded, error) {
	if err := r.prepareProcess(); err != nil {
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
	theirLeash, leash, err := os.Pipe()
	if err != nil {
		orders.Close()
		reports.Close()
		return nil, err
	}
	defer theirLeash.Close()
	pipes := []*os.File{theirOrders, theirReports, theirLeash, leash}
	first := unused(len(pipes))
	env := append([]string{guard.Marker + "=" + strconv.Itoa(first)}, guard.Settings...)
	process, err := startProcess(&r.guards, self, env, files, sys, first, pipes...)
	if err != nil {
		orders.Close()
		reports.Close()
		leash.Close()
		return nil, err
	}
	r.reserveThreads()
	h := &guarded{children: r.children, guard: process, reports: reports, leash: leash, over: make(chan struct{}), orders: outbox{file: orders, filled: make(chan struct{}, 1)}}
	go h.orders.drain(h.over)
	go r.listen(h)
	return h, nil
}

// prepareProcess prepares this process, once, for the death of a guard: it will adopt the guard's
// tree, and an alarm continues it at kill-by if it is stopped. If it is the first process
// of a container, it will also reap all orphans there.
func (r *Runner) prepareProcess() error {
	if r.alarm != nil {
		return nil
	}
	if !proc.ChildrenKnown() {
		return ErrNoProc
	}
	if call, err := proc.RefusedCall(); err != nil { // the guard inherits a filter
		return fmt.Errorf("%w: %s: %w", ErrRefused, call, err)
	}
	if proc.MayLoseChildren() {
		return ErrUnkillable
	}
	if err := proc.AdoptOrphans(); err != nil {
		return fmt.Errorf("%w: prctl: %w", ErrRefused, err)
	}
	proc.DenyAccess() // so that nobody else can give the guard orders
	before, err := proc.InheritedChildren()
	if err != nil { // a child that is unknown here would be killed with a tree
		return err
	}
	r.guards.Lock()
	r.guards.before = before
	r.guards.Unlock()
	if r.children == nil {
		if r.children, err = proc.OpenChildren(); err != nil {
			return err
		}
	}
	alarm, err := proc.NewAlarm(wakings)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	r.alarm = alarm
	if os.Getpid() == 1 {
		go r.guards.reapOthers()
	}
	return nil
}

// Holds reports whether the process is the guard or one of its descendants.
func (r *Runner) Holds(pid int) bool {
	h := r.last()
	return h != nil && proc.Descends(pid, h.guard.pid)
}

func (r *Runner) last() *guarded {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// Extend moves kill-by, a time of Now.
func (r *Runner) Extend(killBy time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current != nil {
		r.current.order(guard.OrderExtend, int64(killBy), nil)
		r.alarm.Set(int64(killBy))
	}
}

// Signal sends the signal to the command's process group, or only to the command if the group
// is the terminal's. Once the command has ended, it sends it to the rest of the tree.
func (r *Runner) Signal(signal int) { r.order(guard.OrderSignal, int64(signal)) }

// SignalRest sends the last signal to those of the tree that were not in the command's group,
// once the command has ended.
func (r *Runner) SignalRest(signal int) { r.order(guard.OrderSignalRest, int64(signal)) }

func (r *Runner) order(kind guard.OrderKind, value int64) {
	if h := r.last(); h != nil {
		h.order(kind, value, nil)
	}
}

// order gives the guard an order, and continues it: it may be stopped, also since before it had an
// alarm that would continue it.
func (h *guarded) order(kind guard.OrderKind, value int64, c *guard.Command) {
	h.orders.put(guard.EncodeOrder(kind, value, c))
	h.guard.signal(syscall.SIGCONT)
}

// Leave ends the guard and lets the tree live on. No report follows.
func (r *Runner) Leave() {
	if h := r.last(); h != nil {
		h.leave()
	}
}

func (h *guarded) leave() {
	h.left.Store(true)
	proc.Unleash(int(h.leash.Fd()))
	h.order(guard.OrderLeave, noValue, nil)
}

// Kill kills the whole tree. If the guard does not do it, the elector does.
func (r *Runner) Kill() {
	if h := r.last(); h != nil {
		h.kill.Do(func() { go h.killTree() })
	}
}

// killTree orders the guard to kill, again and again until the tree is gone. It kills a guard
// that does not answer, and its children, since such a guard may also take long to die, and the
// elector inherits them only then. A guard that answers is at work, and the elector would not be
// faster.
func (h *guarded) killTree() {
	late := time.AfterFunc(time.Second, func() {
		pids, _ := proc.ChildrenOf(h.guard.pid)
		h.reportUnkillable(pids)
	})
	defer late.Stop()
	for {
		h.heard.Store(false)
		h.order(guard.OrderKill, noValue, nil)
		select {
		case <-h.over:
			return
		case <-time.After(killPatience):
		}
		if !h.heard.Load() {
			h.guard.signal(syscall.SIGKILL)
			h.killChildren()
			return
		}
	}
}

// killChildren kills the children of a guard that got SIGKILL, until that has been reaped.
func (h *guarded) killChildren() {
	late := time.AfterFunc(time.Second, func() { h.reportUnkillable([]int{h.guard.pid}) })
	defer late.Stop()
	for h.guard.killChildren() {
		time.Sleep(killAgain)
	}
}

// Close ends a guard without a command. It waits until the last guard, if there is one, has
// been reaped.
func (r *Runner) Close() {
	r.mu.Lock()
	h := r.current
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

// dismiss ends a guard without a command. Its pipes are closed by listen and drain.
func (h *guarded) dismiss() {
	h.guard.signal(syscall.SIGKILL) // it may be stopped
	h.guard.wait()
}

// HasTerminal reports whether this process has a controlling terminal.
func HasTerminal() bool { return proc.HasTerminal() }

// DieOf ends this process by the signal, or returns if this is the first process of a container.
func DieOf(sig syscall.Signal) { proc.DieOf(sig) }

// LetGo closes this process's standard input and output, which are the command's once it
// runs: a reader of its output must not wait for leaderrun.
func LetGo() { proc.Mute(0, 1) }
