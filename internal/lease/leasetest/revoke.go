package leasetest

import (
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
)

func revokeTakes(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	l := h.Grant(t, s, r)
	heard := h.listen(t, s, r.Key)
	before := revoke(t, operate(t, h), r.Key, false)
	is(t, before, lease.Held, r.Holder)
	if before.Token != l.Token || len(before.Runs) > 0 {
		t.Errorf("status before: %+v", before)
	}
	heard()
	lost(t, s, l)
	status := inspect(t, s, r.Key)
	is(t, status, lease.Revoked, r.Holder)
	if status.Token <= l.Token || status.Remaining == 0 || status.Remaining > r.TTL {
		t.Errorf("%+v revoked, status %+v", l, status)
	}
	if denied := held(t, s, rival(r), lease.Revoked); denied.Token != status.Token || !strings.Contains(denied.Value, string(r.Holder)) {
		t.Errorf("denied by %+v", denied)
	}
	release(t, s, l, failed)
	free := inspect(t, s, r.Key)
	is(t, free, "", "")
	filed(t, free, l, false, failed.Exit)
	release(t, s, l, failed) // its reply was lost
	next, err := s.Acquire(bounded(t), rival(r))
	if err != nil || next.Token <= status.Token {
		t.Fatalf("acquire: %+v, error %v", next, err)
	}
	releaseLost(t, s, l, failed)
	renew(t, s, next)
	if runs := inspect(t, s, r.Key).Runs; len(runs) != 1 {
		t.Errorf("filed %+v", runs)
	}
}

func revokeOfADeadHolder(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	r.TTL = 10 * h.Unit
	l := h.Grant(t, s, r)
	revoke(t, s, r.Key, false)
	held(t, s, rival(r), lease.Revoked)
	h.pass(11 * h.Unit)
	is(t, inspect(t, s, r.Key), "", "")
	next, err := s.Acquire(bounded(t), rival(r))
	if err != nil || next.Token <= l.Token {
		t.Fatalf("acquire: %+v, error %v", next, err)
	}
	filed(t, inspect(t, s, r.Key), l, true, 0)
	lost(t, s, l)
	releaseLost(t, s, l, failed)
	filed(t, inspect(t, s, r.Key), l, false, failed.Exit)
}

// Nothing ran, so the start does not count, however late its holder reports it, unless
// somebody else has been granted the key.
func revokedStartTakenBack(t *testing.T, h Harness) {
	s, r := operate(t, h), h.ticking()
	r.TTL, r.Tries = 10*h.Unit, 1
	l := h.Grant(t, s, r)
	revoke(t, s, r.Key, false)
	h.pass(11 * h.Unit)
	is(t, inspect(t, s, r.Key), "", "")
	for range 2 { // its reply was lost
		release(t, s, l, notRun)
		if starts := inspect(t, s, r.Key).Starts; starts != 0 {
			t.Fatalf("%d starts, and nothing was started", starts)
		}
	}
	second := h.Grant(t, s, at(r, l.Tick))
	revoke(t, s, r.Key, false)
	h.pass(11 * h.Unit)
	third := at(r, l.Tick)
	third.Tries = 2
	h.Grant(t, s, third)
	releaseLost(t, s, second, notRun)
	if starts := inspect(t, s, r.Key).Starts; starts != 2 {
		t.Errorf("%d starts, want 2", starts)
	}
}

func revokeEndsHold(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	r.MinHold = h.long()
	l := h.Grant(t, s, r)
	revoke(t, s, r.Key, false)
	release(t, s, l, succeeded)
	is(t, inspect(t, s, r.Key), "", "")
	if _, err := s.Acquire(bounded(t), rival(r)); err != nil {
		t.Errorf("acquire: %v", err)
	}
}

func revokeAtOnce(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	r.MinHold = h.long()
	l := h.Grant(t, s, r)
	heard := h.listen(t, s, r.Key)
	is(t, revoke(t, operate(t, h), r.Key, true), lease.Held, r.Holder)
	heard()
	lost(t, s, l)
	status := inspect(t, s, r.Key)
	is(t, status, "", "")
	if status.Token <= l.Token {
		t.Errorf("token %d, and %d was taken away", status.Token, l.Token)
	}
	filed(t, status, l, true, 0)
	next, err := s.Acquire(bounded(t), rival(r))
	if err != nil || next.Token <= status.Token {
		t.Fatalf("acquire: %+v, error %v", next, err)
	}
	lost(t, s, l)
	releaseLost(t, s, l, failed)
	status = inspect(t, s, r.Key)
	is(t, status, lease.Held, next.Holder)
	filed(t, status, l, false, failed.Exit)
	renew(t, s, next)
}

func revokeTwice(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	l := h.Grant(t, s, r)
	handOver(t, s, r.Key)
	revoke(t, s, r.Key, false)
	first := inspect(t, s, r.Key)
	is(t, revoke(t, s, r.Key, false), lease.Revoked, r.Holder)
	again := inspect(t, s, r.Key)
	is(t, again, lease.Revoked, r.Holder)
	if again.Token != first.Token || again.Remaining > first.Remaining || len(again.Runs) != 1 || first.HandOver {
		t.Errorf("revoked %+v, then %+v", first, again)
	}
	if asked := handOver(t, s, r.Key); asked.HandOver {
		t.Error("asked to hand over what was taken away")
	}
	is(t, revoke(t, s, r.Key, true), lease.Revoked, r.Holder)
	is(t, inspect(t, s, r.Key), "", "")
	lost(t, s, l)
	h.Grant(t, s, rival(r))
}

func revokeOfACooldown(t *testing.T, h Harness) {
	for _, atOnce := range []bool{false, true} {
		s, r := operate(t, h), h.request()
		r.MinHold = h.long()
		l := h.Grant(t, s, r)
		release(t, s, l, failed)
		is(t, revoke(t, s, r.Key, atOnce), lease.Cooldown, "")
		status := inspect(t, s, r.Key)
		is(t, status, "", "")
		filed(t, status, l, false, failed.Exit)
		if next, err := s.Acquire(bounded(t), rival(r)); err != nil || status.Token <= l.Token || next.Token <= status.Token {
			t.Errorf("acquire: %+v, error %v, the status before was %+v", next, err, status)
		}
	}
}

func revokeOfAFreeKey(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	r.TTL = h.Unit
	l := h.Grant(t, s, r)
	h.pass(2 * h.Unit)
	is(t, revoke(t, s, r.Key, false), "", r.Holder)
	status := inspect(t, s, r.Key)
	is(t, status, "", r.Holder)
	if status.Token != l.Token {
		t.Errorf("token %d after %d", status.Token, l.Token)
	}
	is(t, revoke(t, s, r.Key, true), "", r.Holder)
	status = inspect(t, s, r.Key)
	is(t, status, "", "")
	filed(t, status, l, true, 0)
	if status.Token <= l.Token {
		t.Errorf("token %d after %d", status.Token, l.Token)
	}
}

func revokedForGood(t *testing.T, h Harness) {
	for _, atOnce := range []bool{false, true} {
		s, r := operate(t, h), h.request()
		h.Grant(t, s, r)
		revoke(t, s, r.Key, atOnce)
		refused(t, s, r, lease.ErrReleased)
	}
}

func revokedReleaseWakes(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	l := h.Grant(t, s, r)
	revoke(t, s, r.Key, false)
	wakes(t, clients(t, h, 1), r.Key, func() { release(t, s, l, succeeded) })
}

func revokeAtOnceWakes(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	h.Grant(t, s, r)
	wakes(t, clients(t, h, 1), r.Key, func() { revoke(t, s, r.Key, true) })
	cooling := h.request()
	cooling.MinHold = h.long()
	release(t, s, h.Grant(t, s, cooling), succeeded)
	if !h.WakesAll { // the release has left a wake-up there
		wakes(t, clients(t, h, 1), cooling.Key, func() {})
	}
	wakes(t, clients(t, h, 1), cooling.Key, func() { revoke(t, s, cooling.Key, false) })
}

// The holder may be alive, and the next one would not wait for it.
func revokeOfAForgottenKey(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	l := h.Grant(t, s, r)
	h.Forget(t, r.Key)
	is(t, revoke(t, s, r.Key, false), "", r.Holder)
	reasserted(t, s, l)
	h.Forget(t, r.Key)
	is(t, revoke(t, s, r.Key, true), "", r.Holder)
	lost(t, s, l)
	if _, err := s.Acquire(bounded(t), rival(r)); err != nil {
		t.Errorf("acquire: %v", err)
	}
}

func revokeOfAForgottenHolder(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	l := h.Grant(t, s, r)
	h.pass(h.Unit) // the floor of the tokens is the store's clock
	h.Wipe(t)
	is(t, revoke(t, s, r.Key, true), "", "")
	lost(t, s, l)
	if next := h.Grant(t, s, rival(r)); next.Token <= l.Token {
		t.Errorf("token %d after %d", next.Token, l.Token)
	}
}
