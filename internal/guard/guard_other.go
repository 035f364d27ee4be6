//go:build !linux

package guard

import "syscall"

func attributes(c Command) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: !c.Shared}
}

func leaveSession() { _, _ = syscall.Setsid() }

// becomeEnder does nothing: a process that has left the command's group may be alive.
func (g *guard) becomeEnder() {}

// signalRest signals the command's process group, or only the command if the group is the
// terminal's. This system has no subreapers.
func (g *guard) signalRest(sig syscall.Signal) {
	switch {
	case !g.command.Shared:
		_ = syscall.Kill(-g.pid, sig)
	case !g.ended:
		_ = syscall.Kill(g.pid, sig)
	}
}

// signalOutside does nothing: only the group is known, and it already got the signal.
func (g *guard) signalOutside(syscall.Signal) {}

// killChildren kills what signalRest signals. How many that are is not known.
func (g *guard) killChildren() (met int, came, reap bool) {
	g.signalRest(syscall.SIGKILL)
	return 0, false, true
}

// killGroup kills the rest of the process group when the command is gone.
func (g *guard) killGroup() {
	if !g.command.Shared {
		_ = syscall.Kill(-g.pid, syscall.SIGKILL)
	}
}
