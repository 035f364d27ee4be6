package run

import (
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/sender"
)

// meanings returns the signals and what each means to leaderrun. A terminal sends its signals
// to the whole foreground process group, to which the command belongs; the same signal
// from a process is meant for leaderrun. They are caught one after the other while the
// first request is under way. The usual stop signals come first, since one that arrives
// before it is caught ends leaderrun, and a grant would have to expire. ABRT and the fault
// signals are caught, too: sent by a process, they would end leaderrun with a stack trace
// and status 2, which looks like the command's. Real faults still do that.
func meanings() []meaning {
	return append([]meaning{
		{syscall.SIGTERM, campaign.Received{Order: true}},
		{syscall.SIGINT, campaign.Received{Order: true, FromTerminal: true}},
		{syscall.SIGHUP, campaign.Received{}},
		{syscall.SIGQUIT, campaign.Received{FromTerminal: true}},
		{syscall.SIGABRT, campaign.Received{Order: true}},
		{syscall.SIGILL, campaign.Received{Order: true}},
		{syscall.SIGTRAP, campaign.Received{Order: true}},
		{syscall.SIGBUS, campaign.Received{Order: true}},
		{syscall.SIGFPE, campaign.Received{Order: true}},
		{syscall.SIGSEGV, campaign.Received{Order: true}},
		{syscall.SIGSYS, campaign.Received{Order: true}},
		{syscall.SIGUSR1, campaign.Received{}},
		{syscall.SIGUSR2, campaign.Received{}},
		{syscall.SIGTSTP, campaign.Received{FromTerminal: true}},
		{syscall.SIGWINCH, campaign.Received{FromTerminal: true}},
		{syscall.SIGCONT, campaign.Received{FromTerminal: true}},
		{syscall.SIGALRM, campaign.Received{}},
		{syscall.SIGPIPE, campaign.Received{}},
		{syscall.SIGIO, campaign.Received{}},
		{syscall.SIGVTALRM, campaign.Received{}},
		{syscall.SIGXCPU, campaign.Received{}},
		{syscall.SIGXFSZ, campaign.Received{}},
	}, ofThisSystem()...)
}

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
	var signals []os.Signal
	for _, m := range meanings() {
		if !signal.Ignored(m.signal) && (m.signal != syscall.SIGTSTP || !l.terminal) {
			signals = append(signals, m.signal)
		}
	}
	if l.terminal {
		signals = append(signals, syscall.SIGTTIN, syscall.SIGTTOU)
	}
	signal.Notify(l.caught, signals...)
	if l.terminal {
		sender.Note(syscall.SIGINT, syscall.SIGQUIT, syscall.SIGWINCH, syscall.SIGCONT)
	}
	sender.Note(limits...)
	close(l.ready)
	for s := range l.caught {
		for _, m := range meanings() {
			if s != m.signal {
				continue
			}
			if r, own := l.withOrigin(m.signal, m.Received); !own {
				l.received <- r
			}
		}
	}
}

// withOrigin completes the meaning of a signal with where it came from. A signal from a process of
// the guard's tree counts as the terminal's: a program that stops itself, as vi does, signals
// its whole process group, so the command has that signal. Passed on, it might arrive after the
// shell's fg and stop the program again. The guard continues leaderrun with the command.
func (l *listener) withOrigin(sig syscall.Signal, r campaign.Received) (_ campaign.Received, own bool) {
	_, process, pid := sender.Of(sig)
	own = slices.Contains(limits, sig) && (!process || pid == os.Getpid())
	alone := process && !l.holds(pid) // leaderrun has it, but not the command
	r.Signal, r.FromTerminal = int(sig), r.FromTerminal && l.terminal && !alone
	return r, own
}
