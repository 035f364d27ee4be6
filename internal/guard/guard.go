// Package guard is the second process: it holds the command and outlives a sick
// elector. It knows one number, kill-by, and one verb, kill.
//
// It promises: the command's whole tree is dead by kill-by, and at once when the
// elector's end of the pipe closes; what it reports as gone is gone; it starts
// nothing after start-by. It does not know what a lease is, and it never talks to
// a network.
//
// Not covered: guard and elector both killed with SIGKILL (the command itself
// dies with the guard, its descendants may live), work handed to daemons outside
// the tree, children that changed their user id, uninterruptible sleep. Outside
// Linux there is no tree to hold, only the command's process group.
//
// On Linux the package imports nothing but syscall and internal/proc: package
// early dispatches the guard before the rest of the program is initialised.
package guard

import (
	"syscall"

	"github.com/leaderrun/leaderrun/internal/proc"
)

// Dispatch makes this process a guard, and does not return, if Marker is set.
func Dispatch() {
	value, ok := syscall.Getenv(Marker)
	if !ok {
		return
	}
	proc.DenyAccess()
	orders := number(value)
	if orders <= stderr || !isPipe(orders) || !isPipe(orders+1) {
		_, _ = syscall.Write(stderr, []byte("leaderrun: "+Marker+" is set, which only leaderrun does for a process of its own\n  unset it\n"))
		syscall.Exit(Refused)
	}
	proc.SetName(Name)
	syscall.Exit(run(orders, orders+1))
}

const stderr = 2

func isPipe(fd int) bool {
	var st syscall.Stat_t
	return syscall.Fstat(fd, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFIFO
}

// Refused is the status of a guard that has started nothing, since the system
// refused what it needs, or nobody started it as a guard. All else it reports by
// the pipe: without a report, any other status leaves open what it did.
const Refused = 125

const exitDone = 0

// spare is how many threads the guard keeps for its look-out for deaths, and for the runtime,
// which looks for work on another thread when it takes the processor from a call that blocks.
// On a busy machine one may not have gone to sleep again since the last time.
const spare = 3

// wakings is how often the alarm wakes a guard that is stopped again and again: for a
// quarter of an hour.
const wakings = 25

// endings are the signals that end a process and may reach a whole service at
// once. The guard survives them: the elector decides. Those that stop a process
// come from terminals, and the guard is in a process group of its own.
var endings = [...]syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGUSR1, syscall.SIGUSR2}

// guard is the one guard of this process. Everything happens in one thread: the
// kernel kills the command when the thread that started it dies, and nobody
// else may reap while it signals.
type guard struct {
	alarm    *proc.Alarm
	startEnd *proc.Deadline // set while a start is under way
	children *proc.Children
	// Descriptors: of the elector's pipes; died is readable when a child may have
	// died or been stopped, and what is written to watch lets the look-out for the
	// next one begin.
	orders, reports, died, watch int

	command Command
	pid     int // 0 before the start
	killBy  int64

	ended, reported bool
	status          syscall.WaitStatus
	restSignalled   bool // a signal was sent after the command's end, to all that is left
	killing         bool
	expired         bool // kill-by came while something lived
	elector         int
	electorStopped  bool // with the command
	commandStopped  bool // as far as is known
	changed         bool // that, since it was looked at
	stopOrdered     bool // by the elector, and not yet undone
}

func run(orders, reports int) int {
	for _, sig := range endings {
		proc.Ignore(sig)
	}
	syscall.CloseOnExec(orders)
	syscall.CloseOnExec(reports)
	_ = syscall.SetNonblock(reports, true) // nobody may have to read for a kill to happen
	alarm, err := proc.NewAlarm(wakings)
	if err != nil {
		return Refused
	}
	startEnd, err := proc.NewDeadline()
	if err != nil || proc.AdoptOrphans() != nil {
		return Refused
	}
	children, err := proc.OpenChildren()
	if err != nil {
		return Refused
	}
	g := &guard{alarm: alarm, startEnd: startEnd, children: children, orders: orders, reports: reports, elector: syscall.Getppid()}
	proc.ReserveThreads(spare)
	if err := g.watchChildren(); err != nil {
		return Refused
	}
	for !g.turn() {
	}
	return exitDone
}

// turn waits for something to happen and acts on it. It reports whether the
// guard's work is done.
func (g *guard) turn() (done bool) {
	// Orders come before the clock: a guard that was stopped may find its kill-by
	// extended. So the clock that counts is read before it is looked for orders,
	// wherever in between the guard may have been stopped.
	now := proc.Now()
	ready := g.alarm.Poll(g.orders, g.died)
	if ready[0] {
		return g.order()
	}
	if ready[1] && g.reap() {
		return true
	}
	if g.pid != 0 && now >= g.killBy {
		g.killing, g.expired = true, true
	}
	return g.killing && g.kill()
}

// order takes one order. The end of the pipe means that the elector is dead.
func (g *guard) order() (done bool) {
	header := make([]byte, headerLen)
	if !readFull(g.orders, header) {
		return g.orphaned()
	}
	kind, value := OrderKind(get32(header)), int64(get64(header[8:]))
	body := make([]byte, get32(header[4:]))
	if !readFull(g.orders, body) {
		return g.orphaned()
	}
	switch kind {
	case OrderStart:
		return g.start(value, body)
	case OrderExtend:
		g.killBy = value
		if !g.killing {
			g.alarm.Set(value)
		}
	case OrderSignal:
		sig := syscall.Signal(value)
		if sig == syscall.SIGCONT && g.command.Group != 0 && !g.ended {
			return g.goOn()
		}
		g.stopOrdered = g.stopOrdered || sig == syscall.SIGTSTP
		g.signal(sig, g.send)
	case OrderSignalRest:
		if g.ended && !g.restSignalled {
			g.signal(syscall.Signal(value), g.signalOutside)
		}
	case OrderKill:
		g.killing = g.pid != 0
		if g.killing && g.kill() {
			return true
		}
		g.report(ReportKilling, 0)
	case OrderLeave:
		return true
	}
	return false
}

func (g *guard) orphaned() (done bool) {
	g.killing = g.pid != 0
	return !g.killing || g.kill()
}

// start starts the command, unless it comes too late: start-by has passed on the way.
func (g *guard) start(killBy int64, body []byte) (done bool) {
	c, ok := decodeCommand(body)
	if g.pid != 0 || !ok {
		return false
	}
	if proc.Now() >= c.StartBy {
		return g.failed(syscall.ETIMEDOUT)
	}
	g.alarm.Set(killBy) // first: a guard that is stopped from here on is woken
	// An exec takes as long as the file system does. This thread waits for it and cannot notice
	// that the elector dies, so the kernel kills the guard at kill-by, and the child with it.
	g.startEnd.Set(killBy)
	defer g.startEnd.Clear()
	// The runtime gives the child the default actions of the signals that it
	// handles, although they are ignored here.
	pid, err := syscall.ForkExec(c.Path, c.Args, &syscall.ProcAttr{Env: c.Env, Files: []uintptr{0, 1, 2}, Sys: attributes(c)})
	if err != nil {
		return g.failed(err)
	}
	g.command, g.pid, g.killBy = c, pid, killBy
	g.report(ReportStarted, int64(pid))
	notify(g.watch)
	// After the fork, or the command would inherit it.
	proc.Hurry()
	proc.Mute(0, 1, 2) // or the reader of the command's output would wait for the guard
	return false
}

// watchChildren reports deaths by a pipe, one at a time. The goroutine behind it only
// looks: the reaping is left to the guard's thread. It is there, with a thread of its
// own, before there is a command.
func (g *guard) watchChildren() error {
	var died, watch [2]int
	for _, p := range []*[2]int{&died, &watch} {
		if err := syscall.Pipe(p[:]); err != nil {
			return err
		}
		syscall.CloseOnExec(p[0])
		syscall.CloseOnExec(p[1])
	}
	g.died, g.watch = died[0], watch[1]
	go func() {
		notify(died[1])
		for readFull(watch[0], make([]byte, 1)) {
			proc.WaitChild()
			notify(died[1])
		}
	}()
	readFull(g.died, make([]byte, 1))
	return nil
}

// notify writes to a pipe until it takes it: without that nobody would ever reap.
func notify(fd int) {
	for !written(fd, []byte(".")) {
		proc.Sleep(millisecond)
	}
}

// reap follows a word that there is something to reap, and reports whether nobody
// is left.
func (g *guard) reap() (gone bool) {
	readFull(g.died, make([]byte, 1))
	if _, gone := g.collect(); gone {
		return true
	}
	notify(g.watch)
	return false
}

// collect takes the statuses of the dead and reports how many they are, and
// whether none is left.
func (g *guard) collect() (died int, gone bool) {
	died, gone = proc.Reap(func(pid int, status syscall.WaitStatus) {
		if pid != g.pid {
			return
		}
		if status.Stopped() || status.Continued() {
			g.commandStopped, g.changed = status.Stopped(), true
		} else {
			g.ended, g.status = true, status
		}
		g.stopElector(status)
	})
	if gone {
		g.killGroup()
		// The end of a process takes time that the release and the next leader need.
		proc.GiveWay()
		kind := ReportGone
		if g.expired {
			kind = ReportExpired
		}
		g.report(kind, int64(g.status))
		return died, true
	}
	if g.ended && !g.reported {
		g.reported = true
		g.report(ReportEnded, int64(g.status))
	}
	return died, false
}

// stopElector stops the elector with a command that its terminal has stopped, so
// that the shell sees a stopped job, and continues it when the command goes on or has
// been killed. Nobody renews meanwhile: unless the job goes on in time, the lease runs out.
func (g *guard) stopElector(status syscall.WaitStatus) {
	stop := false
	switch status.StopSignal() {
	case syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU:
		stop = g.command.Group != 0
	}
	switch {
	case syscall.Getppid() != g.elector: // it is dead
	case stop:
		_ = syscall.Kill(g.elector, syscall.SIGSTOP)
	case g.electorStopped && !status.Stopped():
		_ = syscall.Kill(g.elector, syscall.SIGCONT)
	default:
		return
	}
	g.electorStopped = stop
}

// signal passes a signal on: to the command's group, to the command alone where
// the group is the terminal's, or to those that outlived it. A signal that ends
// a process also continues it, or it would only be pending.
func (g *guard) signal(sig syscall.Signal, send func(syscall.Signal)) {
	if g.pid == 0 {
		return
	}
	send(sig)
	switch sig {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT:
		send(syscall.SIGCONT)
	}
}

func (g *guard) send(sig syscall.Signal) {
	if g.ended {
		g.restSignalled = true
		g.signalRest(sig)
		return
	}
	g.signalCommand(sig)
}

// signalCommand signals the command, which has not been reaped, with its group. It
// may have gone to another group.
func (g *guard) signalCommand(sig syscall.Signal) {
	if g.command.Group == 0 {
		_ = syscall.Kill(-g.pid, sig)
		if group, _ := syscall.Getpgid(g.pid); group == g.pid {
			return
		}
	}
	_ = syscall.Kill(g.pid, sig)
}

// goOn passes a SIGCONT on at a terminal, and reports whether nobody is left. A shell
// continues the whole group of a job: the elector's order comes later than that, perhaps
// when the terminal has stopped the command once more. So the order holds for a stop that
// the elector ordered, and for one that was known before it, unless the command has gone on.
func (g *guard) goOn() (gone bool) {
	g.changed = false
	_, gone = g.collect()
	if !gone && (g.stopOrdered || g.commandStopped && !g.changed) {
		g.signalCommand(syscall.SIGCONT)
	}
	g.stopOrdered = false
	return gone
}

const (
	millisecond = 1_000_000
	sweep       = 20 * millisecond // before orders are looked for
)

// kill kills all children, and reports whether none is left.
// Their children become ours as they die, so it goes on generation by generation,
// without waiting for anybody's word: where the processor is scarce each thread that has
// to be woken costs a part of the kill margin. The alarm stays due from now on, so that
// the next sweep follows, after an order if there is one. A process may take long to die,
// and the list of children may be unreadable for want of memory.
func (g *guard) kill() (gone bool) {
	g.alarm.Set(proc.Now())
	return proc.Sweep(sweep, func() (died int, none bool) {
		if !g.ended {
			g.signalCommand(syscall.SIGKILL) // it needs no list
		}
		g.killChildren()
		return g.collect()
	})
}

func (g *guard) report(kind ReportKind, value int64) {
	written(g.reports, encodeReport(Report{Kind: kind, Value: value})) // an elector that is gone needs none
}

// failed reports that nothing was started, after which a guard has no more to do.
func (g *guard) failed(err error) (done bool) {
	errno, _ := err.(syscall.Errno)
	g.report(ReportFailed, int64(errno))
	return true
}
