package run

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/leasefile"
	"github.com/leaderrun/leaderrun/internal/observe"
)

// leaseFile is the observer that maintains the file LEADERRUN_LEASE_FILE. If the file
// cannot be written, the run goes on without it.
type leaseFile struct {
	log    *slog.Logger
	dirs   []string
	file   *leasefile.File // of the last lease, or nil
	warned bool            // that the file cannot be updated
}

// Observe is called before the actions. So the file exists before the command starts, and the
// change that ends the lease is on its way before the command gets its signal. It waits for the
// disk only to create the file.
func (l *leaseFile) Observe(t campaign.Transition) {
	switch {
	case !t.From.Phase.HasTree() && t.To.Phase.HasTree():
		l.create(t.To)
	case l.file == nil:
	case t.From.Phase.HasTree() && !t.To.Phase.HasTree():
		l.file.Remove()
	case leadsUntil(t.From) != leadsUntil(t.To):
		if err := l.file.Update(leadsUntil(t.To)); err != nil && !l.warned {
			l.warned = true
			l.log.Warn(fmt.Sprintf("the lease file cannot be updated, leaderrun check may say no while this host leads: %v", err), observe.EventLeaseFile)
		}
	}
}

func (l *leaseFile) create(s elect.State) {
	var err error
	l.file, err = leasefile.Create(l.dirs, leasefile.Lease{Token: s.Lease.Token, Holder: string(s.Lease.Holder), StopBy: leadsUntil(s)})
	if err != nil {
		hint := "make a directory that this user may write to, and name it in XDG_RUNTIME_DIR or TMPDIR"
		if errors.Is(err, leasefile.ErrNoBoot) {
			hint = "show the whole of /proc: no ProcSubset=pid in a unit, no mask over /proc/sys in a container"
		}
		l.log.Warn("there is no lease file, leaderrun check says no in this run: "+err.Error(), observe.EventLeaseFile, observe.HintAttr, hint)
	}
}

// leadsUntil is the stop-by to write to the file. After an order to stop, the command
// still leads until its tree is gone. After a lost or expired lease it does not, even
// if grace is left.
func leadsUntil(s elect.State) time.Duration {
	if s.Outcome.Voids() {
		return 0
	}
	return s.StopBy
}

// path is the value for the command's environment; "" if there is no file.
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
