package elect

import (
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// A leader whose host has not been eligible for a TTL offers its lease with each
// renewal, until a check succeeds.
func TestIneligibleLeaderOffers(t *testing.T) {
	set := settings()
	set.Checked = true
	w := newWatch(t, set)
	offered := func() (last bool) {
		t.Helper()
		_, actions := Step(w.state, Event{Kind: Pinged, At: w.state.ValidUntil - at(29)})
		for _, a := range actions {
			if a.Kind == Renew {
				return a.Lease.Offered
			}
		}
		t.Fatal("no renewal")
		return false
	}
	renewed := func(seconds float64) {
		w.step(event(Pinged, seconds))
		w.step(event(Renewed, seconds).sent(seconds))
	}
	for _, e := range checkedLeader {
		w.step(e)
	}
	for _, s := range []struct {
		at   float64
		kind EventKind
		want bool
	}{{11, MayNotLead, false}, {21, MayNotLead, false}, {31, MayLead, false}, {40, MayNotLead, false}, {50, MayNotLead, false}, {60, MayNotLead, false},
		{69.9, MayNotLead, false}, {70, MayNotLead, true}, {80, MayNotLead, true}, {81, MayLead, false}} {
		renewed(s.at)
		w.step(event(s.kind, s.at))
		if got := offered(); got != s.want {
			t.Errorf("at %v after %s: offered %t", s.at, eventNames[s.kind], got)
		}
	}
}

// Only an attempt after which the candidate stands by may make a leader hand over.
func TestLastAttemptDoesNotWait(t *testing.T) {
	for _, wait := range []float64{0, 5, 60} {
		set := settings()
		set.Wait = at(wait)
		s, actions := Step(New(set), event(Begin, 0))
		if got := actions[0].Waits; got != (wait > 0) {
			t.Errorf("--wait %v: the first attempt waits: %t", wait, got)
		}
		if wait == 0 {
			continue
		}
		s, _ = Step(s, denied(lease.Held, 0.01).remaining(5.34))
		if _, actions = Step(s, event(Timer, 5)); actions[0].Waits != (wait > 5) {
			t.Errorf("--wait %v: the attempt at 5 s waits: %t", wait, actions[0].Waits)
		}
	}
}
