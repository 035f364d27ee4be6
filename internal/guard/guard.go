// Package guard is the second process. It starts the command and kills its tree, also if the
// elector is stopped or dead. It knows nothing of leases, only one time: kill-by. It never
// uses the network. If its elector is dead, the ender takes its place once the tree is gone: this
// program, executed once more, which ends the lease.
//
// Promise: the command's whole tree is dead by kill-by, and soon after the elector's end of
// the pipe closes. A tree is reported as gone only if it is gone. Nothing is started after
// start-by.
//
// If the guard or the elector dies, the kernel kills the command's process group, unless that is the
// caller's, at a terminal: each has an end of a pipe, the leash, that has the kernel do so when the
// other end is closed.
//
// Not promised: if guard and elector are both killed with SIGKILL, the command dies with the
// guard, but descendants that are not in its group may live; and so may those of the group if both
// close their ends within the same microseconds. Work that was handed to daemons outside the tree,
// children with another user id, and processes in uninterruptible sleep may live on. Outside
// Linux the guard only knows the command's process group, not its tree.
//
// On Linux the package imports only syscall and internal/proc, since package early starts the
// guard before the rest of the program is initialised.
package guard

import (
	"syscall"

	"github.com/leaderrun/leaderrun/internal/proc"
	"github.com/leaderrun/leaderrun/internal/sender"
)

// Dispatch makes this process a guard if Marker is set, and then does not return. It keeps others
// from an ender, which the main function makes of this process.
func Dispatch() {
	if _, ender := syscall.Getenv(EnderMarker); ender {
		proc.DenyAccess()
		proc.SetName(EnderName)
		return
	}
	value, ok := syscall.Getenv(Marker)
	if !ok {
		return
	}
	proc.DenyAccess()
	pipes := [numPipes]int{number(value)}
	for i := range pipes {
		pipes[i] = pipes[0] + i
		if pipes[i] <= stderr || !isPipe(pipes[i]) {
			_, _ = syscall.Write(stderr, []byte("leaderrun: "+Marker+" is set, which only leaderrun does for a process of its own\n  unset it\n"))
			syscall.Exit(Refused)
		}
	}
	proc.SetName(Name)
	syscall.Exit(run(pipes))
}

const (
	stderr   = 2
	numPipes = 4 // orders, reports, and the ends of leash
)

func isPipe(fd int) bool {
	var st syscall.Stat_t
	return syscall.Fstat(fd, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFIFO
}

// Refused is the exit status of a guard that has started nothing, because the system refused
// what it needs, or because leaderrun did not start it. Everything else is reported through
// the pipe. A guard that ends with another status, and without a report, may have started
// the command.
const Refused = 125

const exitDone = 0

// spare is how many threads the guard reserves beside those that it uses. The runtime needs
// one when the last processor goes idle, and when it takes the processor from a goroutine that
// has had it for 10 ms; on a busy machine one or two may not sleep again yet. At a load of 46
// none was started under a command in 80 runs with two of them, and in 13 of 80 without.
const spare = 3

// atOnce is how many statuses the guard takes before it looks for orders and at the clock.
const atOnce = 100

// lastChance is how long after kill-by, or after a round of a kill, in nanoseconds, the guard may do
// nothing: whoever stops it again and again keeps it from killing. Then the kernel kills it, which no
// stop delays. Kill-by and lastChance together are earlier than the smallest kill margin (166 ms at a
// TTL of 1 s) ends, so that the elector can kill the rest of the tree. A guard waits for the
// processor for a shorter time.
const lastChance = 120 * millisecond

// wakings is how often the alarm continues a guard that is stopped again and again, within a
// quarter of an hour.
const wakings = 25

// guard is the only guard of this process. It uses one thread: the kernel kills the command
// when the thread that started it ends, and no child may be reaped while it is signalled.
type guard struct {
	alarm    *proc.Alarm
	end      *proc.Deadline // when the kernel kills this process: at kill-by during a start, later after lastChance
	children *proc.Children
	// Descriptors. orders and reports are the elector's pipes. died is readable if a child
	// may have died or stopped; a byte written to watch makes watchChildren wait for the next
	// one.
	orders, reports, died, watch int
	// leash is the two ends, of this process and the elector, of a pipe that carries nothing.
	leash [2]int

	command Command
	pid     int // 0 before the start
	killBy  int64

	ended, reported bool // of the command: it has ended, and ReportEnded was sent
	status          syscall.WaitStatus
	restSignalled   bool // after the command's end a signal was sent to the rest of its tree
	killing         bool
	orphan          bool // the elector is dead
	alone           bool // the tree is gone, and so is the elector
	expired         bool // kill-by came while something lived
	elector         int
	electorStopped  bool                // by this guard, with the command
	commandStopped  bool                // as last reported by the kernel
	changed         bool                // commandStopped was reported anew since continueCommand reset this
	stopOrdered     bool                // by the elector, without a SIGCONT since
	had             [len(endings)]int64 // when the guard got the signal itself
}

func run(pipes [numPipes]int) int {
	for _, sig := range endings {
		if !sender.Catch(sig) {
			proc.Ignore(sig)
		}
	}
	sender.Catch(syscall.SIGTSTP) // the command must not inherit that it is ignored
	for _, fd := range pipes {
		syscall.CloseOnExec(fd)
	}
	orders, reports := pipes[0], pipes[1]
	_ = syscall.SetNonblock(reports, true)  // a kill must not wait for a reader
	_ = syscall.SetNonblock(pipes[2], true) // it is only read to learn of its end
	alarm, err := proc.NewAlarm(wakings)
	if err != nil {
		return Refused
	}
	end, err := proc.NewDeadline()
	if err != nil || proc.AdoptOrphans() != nil {
		return Refused
	}
	children, err := proc.OpenChildren()
	if err != nil {
		return Refused
	}
	g := &guard{alarm: alarm, end: end, children: children, orders: orders, reports: reports, leash: [2]int(pipes[2:]), elector: syscall.Getppid()}
	proc.ReserveThreads(spare)
	if err := g.watchChildren(); err != nil {
		return Refused
	}
	for !g.turn() {
	}
	if g.alone {
		g.becomeEnder()
	}
	return exitDone
}

// turn waits for something to happen and acts on it. It reports whether the
// guard's work is done.
func (g *guard) turn() (done bool) {
	// A guard that was stopped may find an order that extends its kill-by, so orders come
	// before the clock. And the clock is read before the check for orders: the guard may be
	// stopped at any point in between.
	g.noteSignals()
	now := proc.Now()
	ready := g.alarm.Poll(g.orders, g.died)
	if ready[0] {
		return g.order()
	}
	if ready[1] && !g.killing && g.reap() { // kill reaps by itself
		return true
	}
	if g.pid != 0 && now >= g.killBy {
		g.killing, g.expired = true, true
	}
	return g.killing && g.kill()
}

// order reads and carries out one order. At the end of the pipe the elector is dead.
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
		if g.pid != 0 && !g.killing {
			g.alarm.Set(value)
			g.end.Set(value + lastChance)
		}
	case OrderSignal:
		sig := syscall.Signal(value)
		if sig == syscall.SIGCONT && g.command.Shared && !g.ended {
			return g.continueCommand()
		}
		g.stopOrdered = g.stopOrdered || sig == syscall.SIGTSTP
		g.signal(sig, g.sendOnce)
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
		proc.Unleash(g.leash[0])
		return true
	}
	return false
}

// orphaned kills the tree of a dead elector. The kernel must not kill this process any more: nobody
// would inherit what it leaves.
func (g *guard) orphaned() (done bool) {
	g.end.Clear()
	g.orphan, g.killing = true, g.pid != 0
	return !g.killing || g.kill()
}

// start starts the command, unless start-by has passed.
func (g *guard) start(killBy int64, body []byte) (done bool) {
	c, ok := decodeCommand(body)
	if g.pid != 0 || !ok {
		return false
	}
	if proc.Now() >= c.StartBy {
		return g.failed(syscall.ETIMEDOUT)
	}
	g.alarm.Set(killBy) // first, so that a guard that is stopped from here on is continued at kill-by
	// An exec may hang with its file system. This thread waits for it and cannot notice that
	// the elector dies. So the kernel kills the guard at kill-by, and with it the child.
	g.end.Set(killBy)
	// The signals that are ignored here get their default actions in the child, by the Go
	// runtime.
	files := []uintptr{0, 1, stderr}
	if c.Merged {
		files[stderr] = files[1]
	}
	pid, err := proc.ForkExec(c.Path, c.Args, &syscall.ProcAttr{Env: c.Env, Files: files, Sys: attributes(c)})
	if err != nil {
		return g.failed(err)
	}
	g.command, g.pid, g.killBy = c, pid, killBy
	g.hold()
	g.end.Set(killBy + lastChance)
	// After the fork, since the command must not inherit it.
	leaveSession()
	g.report(ReportStarted, int64(pid))
	notify(g.watch)
	g.noteSignals()
	clear(g.had[:]) // until here the guard got what was sent to the caller's process group
	proc.Hurry()
	proc.StayInMemory()
	proc.Mute(0, 1, 2) // a reader of the command's output must not wait for the guard
	return false
}

// hold has the kernel kill the command's process group when this process dies, or when the elector
// does: the other one may be kept from its work.
func (g *guard) hold() {
	if !g.command.Shared {
		proc.Leash(g.leash[0], g.pid)
		proc.Leash(g.leash[1], g.pid)
	}
	_ = syscall.Close(g.leash[1])
}

// hungUp reports whether the elector's death has closed the leash. Its other pipes may be closed later,
// and the kernel has killed the command by then.
func (g *guard) hungUp() bool {
	n, err := syscall.Read(g.leash[0], make([]byte, 1))
	return n == 0 && err == nil
}

const (
	millisecond = 1_000_000
	sweep       = 20 * millisecond // of killing, before the guard checks for orders
)

// kill kills all children, and reports whether none is left. The children of a dead child
// become children of the guard, so it goes on generation by generation. It does not wait for
// watchChildren: on a busy machine each thread that has to wake up costs a part of the kill
// margin. The alarm stays due from now on, so another sweep follows, after an order if there
// is one: a process may take long to die, and the list of children may be unreadable for
// lack of memory.
func (g *guard) kill() (gone bool) {
	g.alarm.Set(proc.Now())
	return proc.Sweep(sweep, func() (progress, none bool) {
		if !g.orphan {
			g.end.Set(proc.Now() + lastChance)
		}
		if !g.ended {
			g.signalCommand(syscall.SIGKILL) // needs no list of children
		}
		met, came, reap := g.killChildren()
		if !reap {
			return came, false
		}
		died, gone := g.collect(met + 1)
		return died > 0, gone
	})
}

// report reports whether the elector can still read it.
func (g *guard) report(kind ReportKind, value int64) (sent bool) {
	return tryWrite(g.reports, encodeReport(Report{Kind: kind, Value: value}))
}

// failed reports that nothing was started. Then the guard's work is done.
func (g *guard) failed(err error) (done bool) {
	errno, _ := err.(syscall.Errno)
	g.report(ReportFailed, int64(errno))
	return true
}
