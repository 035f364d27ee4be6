// Package proc is what guard and elector need from the operating system: a clock that goes
// on while the machine sleeps, an alarm on that clock that also continues a stopped process,
// and the children of this process. All times are in nanoseconds of that clock.
//
// Promise: it never signals another process by mistake. It only kills direct children that
// have not been reaped, so that their process ids cannot belong to others. A process that
// adopts orphans gets each descendant as a direct child once the generations between them
// are dead. A tree that forks faster than it is killed is stopped first, by pidfds, which
// cannot mean another process.
//
// Not promised: outside Linux there are only process groups, and no trees.
//
// On Linux it imports only syscall and unsafe, so that the guard can run before the rest of
// the program is initialised.
package proc

import "syscall"

// Reap calls changed with the status of each child that has ended, stopped or continued. It
// does not wait. It reports how many children have ended, and whether none is left.
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

// Sweep repeats a round, which kills and reaps, until no child is left or limit, in
// nanoseconds, has passed. After a round in which no child died it pauses: at first for as
// long as a death takes, then longer each time.
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
