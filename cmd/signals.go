package cmd

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/campaign"
)

// What each signal that reaches leaderrun means. A terminal sends its signals to
// the whole foreground process group, of which the command is then a part.
var meanings = []struct {
	signal syscall.Signal
	campaign.Received
}{
	{syscall.SIGTERM, campaign.Received{Order: true}},
	{syscall.SIGINT, campaign.Received{Order: true, FromTerminal: true}},
	{syscall.SIGQUIT, campaign.Received{FromTerminal: true}},
	{syscall.SIGTSTP, campaign.Received{FromTerminal: true}},
	{syscall.SIGWINCH, campaign.Received{FromTerminal: true}},
	{syscall.SIGHUP, campaign.Received{}},
	{syscall.SIGUSR1, campaign.Received{}},
	{syscall.SIGUSR2, campaign.Received{}},
	{syscall.SIGCONT, campaign.Received{}},
}

// listen catches the signals and tells what they mean. Without a terminal none
// comes from it. Signals that leaderrun's caller ignores stay ignored: that is
// how nohup works.
//
// The stop signals of background terminal access are caught and dropped, since a
// stopped elector cannot renew; so is SIGPIPE, since a reader of stderr that has
// gone away is no reason to end.
func listen(terminal bool) <-chan campaign.Received {
	caught := make(chan os.Signal, 16)
	signal.Notify(caught, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGPIPE)
	for _, m := range meanings {
		if !signal.Ignored(m.signal) {
			signal.Notify(caught, m.signal)
		}
	}
	received := make(chan campaign.Received)
	go func() {
		for s := range caught {
			for _, m := range meanings {
				if s == m.signal {
					r := m.Received
					r.Signal, r.FromTerminal = int(m.signal), r.FromTerminal && terminal
					received <- r
				}
			}
		}
	}()
	return received
}
