package guard

import "syscall"

// attributes makes the kernel kill the command when the guard dies.
func attributes(c Command) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true, Pgid: c.Group}
}

// signalRest signals the rest of the command's group, and every child of the guard
// outside of it: all that it has adopted.
func (g *guard) signalRest(sig syscall.Signal) {
	if g.others(sig) { // a child holds the group's id
		_ = syscall.Kill(-g.pid, sig)
	}
}

// signalOutside signals every child that is not in the command's group: that one
// has got the signal.
func (g *guard) signalOutside(sig syscall.Signal) { g.others(sig) }

// others signals them, and reports whether a child is in the group.
func (g *guard) others(sig syscall.Signal) (grouped bool) {
	pids, _ := g.children.List()
	for _, pid := range pids {
		if group, err := syscall.Getpgid(pid); err == nil && group == g.pid && g.command.Group == 0 {
			grouped = true
		} else {
			_ = syscall.Kill(pid, sig) // it may have ended: then it is a zombie still
		}
	}
	return grouped
}

// killChildren kills every child of the guard.
func (g *guard) killChildren() {
	g.children.Kill(g.pid, func(int) bool { return false })
}

// killGroup does nothing: without a child there is no descendant either.
func (g *guard) killGroup() {}
