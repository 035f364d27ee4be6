// Package proc is what guard and elector need from the operating system: a
// clock that goes on while the machine sleeps, an alarm on that clock that also
// wakes a stopped process, and the children of this process.
//
// On Linux it imports nothing but syscall and unsafe, so that the guard can run
// before the rest of the program is initialised. On other systems it offers a
// reduced form: process groups instead of trees.
//
// Only direct children that have not been reaped are killed: their process ids cannot
// belong to other processes. A process that adopts orphans gets every descendant as a
// direct child, once the generations between them are dead. A tree that forks faster than
// that is stopped first: by pidfd, which cannot mean another process.
package proc

import "syscall"

// Reap takes the statuses of all children that have ended, or been stopped or
// continued, without waiting, calls changed with each, and reports how many have
// ended and whether no child is left.
func Reap(changed func(pid int, status syscall.WaitStatus)) (died int, none bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED|syscall.WCONTINUED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // ECHILD
			return died, true
		case pid == 0:
			return died, false
		default:
			if !status.Stopped() && !status.Continued() {
				died++
			}
			changed(pid, status)
		}
	}
}

// Sweep repeats a round, which kills and reaps, until no child is left, or until limit,
// in nanoseconds, has passed. It pauses only after a round in which none died: at first
// for as long as a death takes, then longer each time.
func Sweep(limit int64, round func() (died int, none bool)) (none bool) {
	const death, doublings = 50_000, 6
	end := Now() + limit
	for idle := 0; ; {
		died, none := round()
		if none || Now() >= end {
			return none
		}
		if died > 0 {
			idle = 0
			continue
		}
		Sleep(death << min(idle, doublings))
		idle++
	}
}
