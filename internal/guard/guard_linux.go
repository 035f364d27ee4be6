package guard

import (
	"syscall"

	"github.com/leaderrun/leaderrun/internal/proc"
)

// attributes makes the kernel kill the command when the guard dies.
func attributes(c Command) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: !c.Shared}
}

// leaveSession puts the guard into a session of its own. Before the fork it was in the caller's
// process group, which the command is in, too: so the command needs no setpgid, which a group of
// another pid namespace does not allow. If the guard stayed in the session, the kernel would
// take it for a shell that can continue a stopped command (an orphaned process group is not
// stopped, setpgid(2)), and its priority would count only among busy processes of the session
// (autogroup, sched(7)).
func leaveSession() {
	if _, err := syscall.Setsid(); err != nil { // a seccomp filter
		_ = syscall.Setpgid(0, 0)
	}
}

// becomeEnder executes this program once more, in this process. What the ender is told may contain
// a password, so neither its arguments nor its environment have it.
func (g *guard) becomeEnder() {
	var told [2]int
	if g.command.Ender == "" || syscall.Pipe2(told[:], syscall.O_CLOEXEC) != nil {
		return
	}
	_ = syscall.SetNonblock(told[1], true) // what is longer than a pipe has no reader yet
	if !tryWrite(told[1], encodeEnder(g.killBy, g.command.Ender)) {
		return
	}
	_ = syscall.Dup3(told[0], 0, 0)
	proc.CloseOnExec(stderr + 1)
	_ = syscall.Exec("/proc/self/exe", []string{EnderName}, append(g.command.Env, EnderMarker+"="))
}

// signalRest signals the rest of the command's group, and every child of the guard that is
// not in it.
func (g *guard) signalRest(sig syscall.Signal) {
	if g.signalUngrouped(sig) { // a child is in the group, so its id cannot be another group's
		_ = syscall.Kill(-g.pid, sig)
	}
}

// signalOutside signals every child that is not in the command's group, which already got the
// signal.
func (g *guard) signalOutside(sig syscall.Signal) { g.signalUngrouped(sig) }

// signalUngrouped signals every child that is not in the command's group, and reports whether a child
// is in it. A group that a child leads gets the signal as a whole, like the command's: what a shell
// waits for would outlive it.
func (g *guard) signalUngrouped(sig syscall.Signal) (grouped bool) {
	pids, _ := g.children.List() // none is reaped, so neither their ids nor those of their groups are used again
	var signalled []int
	for _, pid := range pids {
		switch group, err := syscall.Getpgid(pid); {
		case err == nil && group == g.pid && !g.command.Shared:
			grouped = true
		case has(signalled, group):
		case has(pids, group):
			signalled = append(signalled, group)
			_ = syscall.Kill(-group, sig)
		default:
			_ = syscall.Kill(pid, sig)
		}
	}
	return grouped
}

func has(pids []int, pid int) bool {
	for _, p := range pids {
		if p == pid {
			return true
		}
	}
	return false
}

// killChildren kills every child of the guard, and reports how many it has met, whether there
// are more than before, and whether it is time to reap.
func (g *guard) killChildren() (met int, came, reap bool) {
	round := g.children.Kill(g.pid, func(int) bool { return false })
	return len(round.Met), round.Came, round.Reap
}

// killGroup does nothing: without children there are no descendants.
func (g *guard) killGroup() {}
