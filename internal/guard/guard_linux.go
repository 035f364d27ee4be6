package guard

import (
	"syscall"

	"github.com/leaderrun/leaderrun/internal/proc"
)

// attributes makes the kernel kill the command when the guard dies.
func attributes(c Command) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true, Pgid: c.Group}
}

// signalRest signals every child of the guard: the command and all that it has
// adopted.
func (g *guard) signalRest(sig syscall.Signal) { proc.SignalChildren(sig, 0) }

// bury does nothing: when no child is left, nobody is.
func (g *guard) bury() {}
