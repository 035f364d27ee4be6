package run

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/sender"
)

// meanings says what each signal that reaches leaderrun means. A terminal sends its signals
// to the whole foreground process group, of which the command is then a part; the same
// signal from a process was sent to leaderrun. They are caught one after the other, beside
// the first request: those that people send to end a program come first, since one that is
// not caught yet leaves a grant to expire. ABRT and those of faults, if a process sends
// them, would end leaderrun with a stack and status 2, which reads as the command's; real
// faults still do.
var meanings = []struct {
	signal syscall.Signal
	campaign.Received
}{
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
}

// listener catches the signals of a run.
type listener struct {
	terminal bool
	holds    func(pid int) bool
	caught   chan os.Signal
	received chan campaign.Received
	// ready is closed when all signals are caught. Until then they have their
	// default action, which is the right one while nothing runs.
	ready chan struct{}
}

// listen begins to catch the signals. Without a terminal none comes from one. It
// works in the background: the runtime takes half a millisecond, in which the store
// can be asked.
func listen(terminal bool, holds func(pid int) bool) *listener {
	l := &listener{
		terminal: terminal, holds: holds, caught: make(chan os.Signal, 16),
		received: make(chan campaign.Received), ready: make(chan struct{}),
	}
	go l.catch()
	return l
}

// beforeStart returns when every signal is caught, or an order to stop would end
// leaderrun and not the command. A terminal's SIGTSTP is caught only now: it stops a
// candidate as any program, and the kernel knows whether there is a shell to let it
// go on. Go cannot give it back, so a candidate that has led before drops it.
func (l *listener) beforeStart() {
	<-l.ready
	if l.terminal && !signal.Ignored(syscall.SIGTSTP) {
		signal.Notify(l.caught, syscall.SIGTSTP)
		sender.Note(syscall.SIGTSTP)
	}
}

// catch leaves alone what leaderrun's caller ignores: that is how nohup works.
// The stop signals of background terminal access are caught and dropped, since a
// stopped elector cannot renew.
func (l *listener) catch() {
	var signals []os.Signal
	for _, m := range meanings {
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
	close(l.ready)
	for s := range l.caught {
		for _, m := range meanings {
			if s == m.signal {
				r := m.Received
				_, process, pid := sender.Of(m.signal)
				// The guard continues leaderrun with the command. A program that stops
				// itself, as vi does, sends to its whole process group: passed on, the
				// signal might come after the shell's fg, and stop it once more.
				alone := process && !l.holds(pid)
				r.Signal, r.FromTerminal = int(m.signal), r.FromTerminal && l.terminal && !alone
				l.received <- r
			}
		}
	}
}
