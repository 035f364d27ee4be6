package elect

import (
	"slices"
	"testing"

	"github.com/leaderrun/leaderrun/internal/candidate"
)

// The signals to pass on that end a standby: those that end a program by default.
func TestSignalsThatEnd(t *testing.T) {
	for signal := 1; signal <= 64; signal++ {
		set := settings()
		set.Wait = at(60)
		w := newWatch(t, set)
		for _, e := range standby {
			w.step(e)
		}
		w.step(event(PassOn, 3).signal(signal))
		want := slices.Contains([]int{1, 3, 14, 30}, signal) || signal >= 32
		if got := w.state.Phase == candidate.Done; got != want {
			t.Errorf("signal %d: %s", signal, w.state)
		}
	}
}

// A candidate leads while there is a tree and the lease is not void.
func TestLeads(t *testing.T) {
	for s, want := range map[*State]bool{
		{Phase: candidate.Standby}:                              false,
		{Phase: candidate.Starting}:                             true,
		{Phase: candidate.Stopping, Outcome: candidate.Ordered}: true,
		{Phase: candidate.Stopping, Outcome: candidate.Expired}: false,
		{Phase: candidate.Releasing, Outcome: candidate.Exited}: false,
	} {
		if got := s.Leads(); got != want {
			t.Errorf("%s: %t", s, got)
		}
	}
}
