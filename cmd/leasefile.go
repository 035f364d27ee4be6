package cmd

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/leasefile"
	"github.com/leaderrun/leaderrun/internal/observe"
)

// leaseFile is the sink that keeps the file of LEADERRUN_LEASE_FILE. A run goes
// on without it.
type leaseFile struct {
	log  *slog.Logger
	dirs []string
	file *leasefile.File // of the last lease; nil: there is none
	told bool            // that it cannot be kept up
}

// Observe is called before the actions: there is a file when the command starts,
// and before the command is signalled for the end of its lease that is on its way
// to the disk, for which nobody waits.
func (l *leaseFile) Observe(t campaign.Transition) {
	switch {
	case !t.From.Tree && t.To.Tree:
		l.create(t.To)
	case l.file == nil:
	case t.From.Tree && !t.To.Tree:
		l.file.Remove()
	case leadsUntil(t.From) != leadsUntil(t.To):
		if err := l.file.Update(leadsUntil(t.To)); err != nil && !l.told {
			l.told = true
			l.log.Warn(fmt.Sprintf("the lease file cannot be kept up, leaderrun check may say no while this host leads: %v", err), observe.EventLeaseFile)
		}
	}
}

func (l *leaseFile) create(s elect.State) {
	var err error
	l.file, err = leasefile.Create(l.dirs, leasefile.Lease{Token: s.Lease.Token, Holder: string(s.Lease.Holder), StopBy: leadsUntil(s)})
	if err != nil {
		l.log.Warn("there is no lease file, leaderrun check says no in this run: "+err.Error(),
			observe.EventLeaseFile, observe.CureAttr, "make a directory that this user may write to, and name it in XDG_RUNTIME_DIR or TMPDIR")
	}
}

// leadsUntil is what the command may rely on. One that was told to stop leads
// until its tree is gone; one whose lease is over does not, however much of its
// grace is left.
func leadsUntil(s elect.State) time.Duration {
	if s.Outcome == elect.Lost || s.Outcome == elect.Expired {
		return 0
	}
	return s.StopBy
}

// path is what the command is told; "" where there is no file.
func (l *leaseFile) path() string {
	if l.file == nil {
		return ""
	}
	return l.file.Path()
}

func (l *leaseFile) close() {
	if l.file != nil {
		l.file.Close()
	}
}
