package guard

import (
	"syscall"

	"github.com/leaderrun/leaderrun/internal/proc"
	"github.com/leaderrun/leaderrun/internal/sender"
)

// endings are the signals that end a process and that a service manager may send to all
// processes of a service, and the terminal to the caller's process group. The guard drops
// them, since the elector decides.
var endings = [...]syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGUSR1, syscall.SIGUSR2}

const (
	// patience is how long the guard waits for a signal that a service manager sends to its
	// elector first; sameSignal is how old the guard's own may be.
	patience   = 10 * millisecond
	sameSignal = 100 * millisecond
)

// stopElector stops the elector if the terminal has stopped the command, so that the shell
// sees a stopped job. At Ctrl-Z a program that catches SIGTSTP, as top, stops itself by SIGSTOP.
// stopElector continues the elector when the command goes on or is dead. Nobody
// renews in between, so the lease runs out unless the job goes on in time.
func (g *guard) stopElector(status syscall.WaitStatus) {
	stop := false
	switch status.StopSignal() {
	case syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU:
		stop = g.command.Shared
	case syscall.SIGSTOP: // a guard that kills sends it, too
		stop = g.command.Shared && !g.killing && !proc.HasDefaultAction(g.pid, syscall.SIGTSTP)
	}
	switch {
	case syscall.Getppid() != g.elector: // it is dead
	case stop:
		_ = syscall.Kill(g.elector, syscall.SIGSTOP)
	case g.electorStopped && !status.Stopped():
		_ = syscall.Kill(g.elector, syscall.SIGCONT)
	default:
		return
	}
	g.electorStopped = stop
}

// signal sends a signal by send. After a signal that ends a process it sends SIGCONT, since a
// stopped process would not get it.
func (g *guard) signal(sig syscall.Signal, send func(syscall.Signal)) {
	if g.pid == 0 {
		return
	}
	send(sig)
	switch sig {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT:
		send(syscall.SIGCONT)
	}
}

// noteSignals notes when the guard has got a signal itself.
func (g *guard) noteSignals() {
	for i, sig := range endings {
		if _, process, _ := sender.Of(sig); process {
			g.had[i] = proc.Now()
		}
	}
}

// sendOnce sends a signal unless the command has it. A service manager signals all processes of
// a service; so a signal that the guard gets at the same time as its elector has reached the
// command. The guard may be the last to get it.
func (g *guard) sendOnce(sig syscall.Signal) {
	for i, ending := range endings {
		if ending != sig {
			continue
		}
		for begun := proc.Now(); proc.Now() < begun+patience; proc.Sleep(millisecond) {
			g.noteSignals()
			if g.had[i] > begun-sameSignal {
				g.had[i] = 0
				return
			}
		}
	}
	g.send(sig)
}

func (g *guard) send(sig syscall.Signal) {
	if g.ended {
		g.restSignalled = true
		g.signalRest(sig)
		return
	}
	g.signalCommand(sig)
}

// signalCommand signals the command, which has not been reaped, and its group; only the
// command if the group is the terminal's. The command may have joined another group.
func (g *guard) signalCommand(sig syscall.Signal) {
	if !g.command.Shared {
		_ = syscall.Kill(-g.pid, sig)
		if group, _ := syscall.Getpgid(g.pid); group == g.pid {
			return
		}
	}
	_ = syscall.Kill(g.pid, sig)
}

// continueCommand handles a SIGCONT at a terminal, and reports whether no child is left. A shell
// continues the whole process group of a job. The elector's order comes later, perhaps when
// the terminal has stopped the command again. So the order only undoes a stop that the
// elector ordered, or one that was known before the order, if nothing has changed since.
func (g *guard) continueCommand() (gone bool) {
	g.changed = false
	_, gone = g.collect(atOnce)
	if !gone && (g.stopOrdered || g.commandStopped && !g.changed) {
		g.signalCommand(syscall.SIGCONT)
	}
	g.stopOrdered = false
	return gone
}
