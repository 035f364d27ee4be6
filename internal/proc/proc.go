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

// ForkExec starts a program as execvp(3) does: a file that the kernel cannot execute, since it is
// a script without #!, is run by /bin/sh.
func ForkExec(path string, args []string, attr *syscall.ProcAttr) (pid int, err error) {
	pid, err = syscall.ForkExec(path, args, attr)
	if err != syscall.ENOEXEC {
		return pid, err
	}
	const shell = "/bin/sh"
	if pid, failed := syscall.ForkExec(shell, append([]string{shell, path}, args[1:]...), attr); failed == nil {
		return pid, nil
	}
	return pid, err
}

// Reap takes the statuses of children that have ended, or been stopped or continued, as many
// as most, without waiting, calls changed with each, and reports how many have ended and
// whether no child is left. Without a limit it might not come back: processes may die
// faster than they are reaped.
func Reap(most int, changed func(pid int, status syscall.WaitStatus)) (died int, none bool) {
	for taken := 0; taken < most; {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED|syscall.WCONTINUED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // ECHILD
			return died, true
		case pid == 0:
			return died, false
		default:
			taken++
			if !status.Stopped() && !status.Continued() {
				died++
			}
			changed(pid, status)
		}
	}
	return died, false
}

// Sweep repeats a round, which kills and reaps, until no child is left, or until limit,
// in nanoseconds, has passed. It pauses only after a round without progress: at first for as
// long as a death takes, then longer each time, and never for less than the round took:
// a thread with the highest priority must leave processor time to others while a process does
// not die.
func Sweep(limit int64, round func() (progress, none bool)) (none bool) {
	const death, doublings = 50_000, 6
	end := Now() + limit
	for idle := 0; ; {
		begun := Now()
		progress, none := round()
		if none {
			return true
		}
		if progress {
			idle = 0
		} else {
			took := min(Now()-begun, limit) // the machine may have slept
			Sleep(max(death<<min(idle, doublings), took))
			idle++
		}
		if Now() >= end {
			return false
		}
	}
}
