package run

import (
	"log/slog"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/leasefile"
)

func leading(stopBy time.Duration) elect.State {
	return elect.State{Phase: candidate.Leading, Hold: elect.Hold{StopBy: stopBy, Lease: lease.Lease{Token: 7, Holder: "h/1/0123456789abcdef0123456789abcdef"}}}
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
