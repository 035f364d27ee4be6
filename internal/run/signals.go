package run

import (
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/sender"
)

// signals returns the signals that leaderrun catches, one after the other while the first request is
// under way. The usual stop signals come first, since one that arrives before it is caught ends
// leaderrun, and a grant would have to expire. ABRT and the fault signals are caught, too: sent by
// a process, they would end leaderrun with a stack trace and status 2, which looks like the
// command's. Real faults still do that. The Go runtime keeps PROF, CHLD, URG, STKFLT and the first
// three real-time signals for itself.
func signals() []syscall.Signal {
	all := []syscall.Signal{
		syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGILL, syscall.SIGTRAP,
		syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV, syscall.SIGSYS, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP,
		syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGALRM, syscall.SIGPIPE, syscall.SIGIO, syscall.SIGVTALRM, syscall.SIGXCPU, syscall.SIGXFSZ,
	}
	if runtime.GOOS != "linux" {
		return all
	}
	const power, firstRealTime, last = 30, 35, 64 // PWR, RTMIN+1, RTMAX
	all = append(all, power)
	for sig := syscall.Signal(firstRealTime); sig <= last; sig++ {
		all = append(all, sig)
	}
	return all
}

// orders are the signals that mean to leaderrun that it is to stop. All others are only passed on.
var orders = []syscall.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGABRT, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV, syscall.SIGSYS,
}

// ofTerminals are the signals that a terminal sends, to the whole foreground process group, to which
// the command belongs. The same signal from a process is meant for leaderrun.
var ofTerminals = []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGWINCH, syscall.SIGCONT}

// limits are the signals that the kernel sends for what leaderrun itself does: it writes where
// nobody reads, or beyond a limit. Only those from other processes are passed on.
var limits = []syscall.Signal{syscall.SIGPIPE, syscall.SIGXCPU, syscall.SIGXFSZ}

// listener catches the signals of a run.
type listener struct {
	terminal bool
	holds    func(pid int) bool
	caught   chan os.Signal
	received chan campaign.Received
	// ready is closed when all signals are caught. Until then they have their default
	// action, which is right while no command runs.
	ready chan struct{}
}

// listen starts to catch the signals. terminal reports whether there is a terminal that
// may send them. It works in the background: the runtime needs half a millisecond, and
// meanwhile the store can be asked.
func listen(terminal bool, holds func(pid int) bool) *listener {
	l := &listener{
		terminal: terminal, holds: holds, caught: make(chan os.Signal, 16),
		received: make(chan campaign.Received), ready: make(chan struct{}),
	}
	go l.catch()
	return l
}

// beforeStart waits until every signal is caught: before that, an order to stop would end
// leaderrun and not the command. A terminal's SIGTSTP is caught only now, so that it
// stops a candidate like any program, if the kernel finds a shell that can continue it.
// Go cannot restore the default action, so a candidate that has led before ignores it.
func (l *listener) beforeStart() {
	<-l.ready
	if l.terminal && !signal.Ignored(syscall.SIGTSTP) {
		signal.Notify(l.caught, syscall.SIGTSTP)
		sender.Note(syscall.SIGTSTP)
	}
}

// catch does not catch signals that leaderrun's caller ignores, as nohup does. The stop
// signals of background terminal access are caught and dropped, since a stopped elector
// cannot renew.
func (l *listener) catch() {
	var catch []os.Signal
	for _, sig := range signals() {
		if !signal.Ignored(sig) && (sig != syscall.SIGTSTP || !l.terminal) {
			catch = append(catch, sig)
		}
	}
	if l.terminal {
		catch = append(catch, syscall.SIGTTIN, syscall.SIGTTOU)
	}
	signal.Notify(l.caught, catch...)
	if l.terminal {
		sender.Note(syscall.SIGINT, syscall.SIGQUIT, syscall.SIGWINCH, syscall.SIGCONT)
	}
	sender.Note(limits...)
	close(l.ready)
	for s := range l.caught {
		if sig := s.(syscall.Signal); sig != syscall.SIGTTIN && sig != syscall.SIGTTOU {
			if r, own := l.meaning(sig); !own {
				l.received <- r
			}
		}
	}
}

// meaning returns what a signal means to leaderrun, by where it came from. One from a process of
// the guard's tree counts as the terminal's: a program that stops itself, as vi does, signals
// its whole process group, so the command has that signal. Passed on, it might arrive after the
// shell's fg and stop the program again. The guard continues leaderrun with the command.
func (l *listener) meaning(sig syscall.Signal) (r campaign.Received, own bool) {
	_, process, pid := sender.Of(sig)
	own = slices.Contains(limits, sig) && (!process || pid == os.Getpid())
	alone := process && !l.holds(pid) // leaderrun has it, but not the command
	return campaign.Received{
		Signal: int(sig), Order: slices.Contains(orders, sig), FromTerminal: slices.Contains(ofTerminals, sig) && l.terminal && !alone,
	}, own
}
