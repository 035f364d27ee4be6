// Package proc is what guard and elector need from the operating system: a
// clock that goes on while the machine sleeps, an alarm on that clock that also
// wakes a stopped process, and the children of this process.
//
// On Linux it imports nothing but syscall and unsafe, so that the guard can run
// before the rest of the program is initialised. On other systems it offers a
// reduced form: process groups instead of trees.
//
// Only direct children that have not been reaped are ever signalled: their
// process ids cannot belong to anybody else. A process that adopts orphans
// meets every descendant as its direct child, once the generations between them
// are dead.
package proc

import "syscall"

// Reap takes the statuses of all children that have ended or been stopped,
// without waiting, and reports whether no child is left.
func Reap(told func(pid int, status syscall.WaitStatus)) (none bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // ECHILD
			return true
		case pid == 0:
			return false
		default:
			told(pid, status)
		}
	}
}
