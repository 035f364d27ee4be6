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
// adopted. A signal that went to the command's group is not sent to a member of
// it again; SIGKILL does no harm twice.
func (g *guard) signalRest(sig syscall.Signal) {
	proc.SignalChildren(sig, func(pid int) bool {
		group, err := syscall.Getpgid(pid)
		return sig != syscall.SIGKILL && g.groupTold&(1<<uint(sig)) != 0 && err == nil && group == g.pid
	})
}

// bury does nothing: when no child is left, nobody is.
func (g *guard) bury() {}
