package run

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/leasefile"
	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/settings"
)

func leading(stopBy time.Duration) elect.State {
	return elect.State{Phase: candidate.Leading, Hold: elect.Hold{StopBy: stopBy, Lease: lease.Lease{Token: 7, Holder: "h/1/0123456789abcdef0123456789abcdef"}}}
}

// A run goes on without a lease file: one warning, and no variable.
func TestNowhereForTheLeaseFile(t *testing.T) {
	var said bytes.Buffer
	l := &leaseFile{log: observe.NewLogger(&said, slog.LevelWarn, observe.Form{}), dirs: []string{t.TempDir() + "/missing"}}
	defer l.close()
	l.Observe(campaign.Transition{To: leading(time.Second)})
	l.Observe(campaign.Transition{From: leading(time.Second), To: leading(2 * time.Second)})
	l.Observe(campaign.Transition{From: leading(2 * time.Second), To: elect.State{Phase: candidate.Releasing}})
	if got := said.String(); strings.Count(got, "leaderrun: ") != 1 || !strings.Contains(got, "/missing: no such file") || strings.Count(got, "\n  ") != 1 {
		t.Errorf("it said:\n%s", got)
	}
	for _, v := range environment(nil, "k", leading(0).Lease, l.path()) {
		if strings.HasPrefix(v, settings.LeaseFileVariable) {
			t.Errorf("the command gets %s", v)
		}
	}
}

// Until when the command leads, step by step.
func TestLeaseFileFollowsTheRun(t *testing.T) {
	with := func(why candidate.Outcome) elect.State {
		s := leading(3 * time.Second)
		s.Phase, s.Outcome = candidate.Stopping, why
		return s
	}
	l := &leaseFile{log: slog.New(slog.DiscardHandler), dirs: []string{t.TempDir()}}
	defer l.close()
	for _, step := range []struct {
		from, to elect.State
		want     time.Duration
	}{
		{elect.State{Phase: candidate.Campaigning}, leading(time.Second), time.Second},
		{leading(time.Second), leading(3 * time.Second), 3 * time.Second},
		{leading(3 * time.Second), with(candidate.Ordered), 3 * time.Second},
		{with(candidate.Ordered), with(candidate.MaxRuntime), 3 * time.Second},
		{with(candidate.MaxRuntime), with(candidate.Expired), 0},
		{with(candidate.Expired), with(candidate.Ordered), 3 * time.Second},
		{with(candidate.Ordered), with(candidate.Lost), 0},
	} {
		l.Observe(campaign.Transition{From: step.from, To: step.to})
		var got leasefile.Lease
		var err error
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			if got, err = leasefile.Read(l.path()); err == nil && got.StopBy == step.want {
				break
			}
		}
		if err != nil || got != (leasefile.Lease{Token: 7, Holder: string(step.to.Lease.Holder), StopBy: step.want}) {
			t.Fatalf("%s, then %s: the file says %v (%v), want stop-by %v", step.from, step.to, got, err, step.want)
		}
	}
	l.Observe(campaign.Transition{From: with(candidate.Lost), To: elect.State{Phase: candidate.Releasing, Outcome: candidate.Lost}})
	l.close()
	if got, err := leasefile.Read(l.path()); err == nil {
		t.Errorf("after the end: %v", got)
	}
}
