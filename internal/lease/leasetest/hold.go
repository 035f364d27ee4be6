package leasetest

import (
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// holdTests: the minimum hold.
var holdTests = []test{
	{"a minimum hold outlasts the release", holdOutlastsRelease},
	{"a minimum hold outlasts a crash and a renewal", holdOutlastsCrash},
	{"a minimum hold longer than the ttl shows while the run lasts", holdWhileRunning},
	{"a minimum hold that is over holds nothing", holdIsOver},
	{"nothing ran: nothing is held", nothingRanNothingHeld},
	{"a release that is repeated after the minimum hold changes nothing", repeatedAfterHold},
}

func holdOutlastsRelease(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	held10 := r
	held10.TTL, held10.MinHold = 5*h.Unit, 10*h.Unit
	l := h.Grant(t, s, held10)
	release(t, s, l, succeeded)
	release(t, s, l, succeeded) // repeated: its reply got lost

	denied := held(t, s, rival(r), lease.Cooldown)
	if !strings.Contains(denied.Value, string(l.Holder)) {
		t.Errorf("%q does not name the holder %q", denied.Value, l.Holder)
	}
	if denied.Remaining <= 0 || denied.Remaining > held10.MinHold {
		t.Errorf("%s left of %s", denied.Remaining, held10.MinHold)
	}
	refused(t, s, held10, lease.ErrReleased)
	lost(t, s, l)
	h.pass(11 * h.Unit)
	h.Grant(t, s, rival(r))
}

func holdOutlastsCrash(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	held8 := r
	held8.TTL, held8.MinHold = 2*h.Unit, 8*h.Unit
	renew(t, s, h.Grant(t, s, held8))
	h.pass(4 * h.Unit) // a renewal that shortened it would end it after 2
	held(t, s, rival(r), lease.Held)
	h.pass(5 * h.Unit)
	h.Grant(t, s, rival(r))
}

func holdWhileRunning(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	r.TTL, r.MinHold = h.Unit, h.long()
	l := h.Grant(t, s, r)
	if hold := l.MinHoldUntil - l.AcquiredAt; hold != r.MinHold.Milliseconds() {
		t.Errorf("a minimum hold of %d ms, asked for %s", hold, r.MinHold)
	}
	h.pass(2 * h.Unit)
	held(t, s, rival(r), lease.Held)
	if again := h.Grant(t, s, r); again.Token != l.Token || again.MinHoldUntil != l.MinHoldUntil {
		t.Errorf("granted %+v, then %+v", l, again)
	}
}

func holdIsOver(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	r.MinHold = h.Unit
	l := h.Grant(t, s, r)
	h.pass(2 * h.Unit)
	release(t, s, l, succeeded)
	h.Grant(t, s, rival(r))
}

func nothingRanNothingHeld(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	r.MinHold = h.long()
	release(t, s, h.Grant(t, s, r), notRun)
	h.Grant(t, s, rival(r))
}

// The key may be settling by then, for a holder that the repeated release does not concern.
func repeatedAfterHold(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	r.MinHold = h.Unit
	l := h.Grant(t, s, r)
	release(t, s, l, succeeded)
	h.pass(2 * h.Unit)
	knowing := rival(r)
	knowing.Seen.Token, knowing.Seen.TTL = l.Token+1_000_000, 20*h.Unit
	settles(t, s, knowing)
	h.pass(5 * h.Unit)
	release(t, s, l, succeeded)
	if settling := settles(t, s, knowing); settling.Remaining > 19*h.Unit {
		t.Errorf("after 5 of 20 it settles for %s more, in units of %s", settling.Remaining, h.Unit)
	}
}
