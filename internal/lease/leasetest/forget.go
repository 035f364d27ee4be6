package leasetest

import (
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// forgetTests: everything known about a key is removed.
func forgetTests(h Harness) []test {
	tests := []test{
		{"a forgotten key keeps its token alone", forgetKeepsToken},
		{"a key is forgotten with its token", forgetTakesToken},
		{"a key that somebody has is not forgotten", forgetSparesHolder},
		{"a cooldown is not forgotten", forgetSparesCooldown},
		{"a paused key is not forgotten", forgetSparesPause},
		{"a holder that vanished is not forgotten", forgetSparesVanished},
		{"no late message brings a forgotten candidacy back", forgottenForGood},
		{"to forget what nobody knows changes nothing", forgetNothing},
	}
	if h.Put != nil {
		tests = append(tests, test{"a foreign value is not forgotten", forgetSparesForeign})
	}
	return tests
}

func forget(t *testing.T, s lease.Admin, key string, token bool) lease.Status {
	t.Helper()
	before, err := s.Forget(bounded(t), key, token)
	must.Succeed(t, err)
	return before
}

// forgotten checks that nothing is known about a key except its token.
func forgotten(t *testing.T, s lease.Admin, key string, token int64) {
	t.Helper()
	status := inspect(t, s, key)
	is(t, status, "", "")
	if status.Token != token || len(status.Runs) > 0 || status.ServedTick != 0 || status.Starts != 0 || status.Tries != 0 || status.Period != 0 || status.Pause != (lease.Pause{}) {
		t.Errorf("the status is %+v, want the token %d alone", status, token)
	}
}

// spared checks that a key has not changed.
func spared(t *testing.T, s lease.Admin, key string) {
	t.Helper()
	for _, token := range []bool{false, true} {
		was := inspect(t, s, key)
		before := forget(t, s, key, token)
		is(t, before, was.Why, was.Holder)
		now := inspect(t, s, key)
		is(t, now, was.Why, was.Holder)
		if before.AtRest() || now.Token != was.Token || len(now.Runs) != len(was.Runs) || now.ServedTick != was.ServedTick || now.Pause != was.Pause {
			t.Errorf("it was %+v, is %+v, answered %+v", was, now, before)
		}
	}
}

func forgetKeepsToken(t *testing.T, h Harness) {
	s, r := operate(t, h), h.ticking()
	l := h.Grant(t, s, r)
	release(t, s, l, succeeded)
	late := rival(r)
	late.Tick = l.Tick
	refused(t, s, late, lease.ErrDone)
	if before := forget(t, s, r.Key, false); before.Token != l.Token || len(before.Runs) != 1 || !before.AtRest() {
		t.Errorf("answered %+v", before)
	}
	forgotten(t, s, r.Key, l.Token)
	if again := h.Grant(t, s, late); again.Token <= l.Token {
		t.Errorf("token %d after %d", again.Token, l.Token)
	}
}

func forgetTakesToken(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	l := h.Grant(t, s, r)
	release(t, s, l, failed)
	forget(t, s, r.Key, true)
	forgotten(t, s, r.Key, 0)
	forget(t, s, r.Key, true)
	forgotten(t, s, r.Key, 0)
	h.Grant(t, s, rival(r))
}

func forgetSparesHolder(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	l := h.Grant(t, s, r)
	spared(t, s, r.Key)
	renew(t, s, l)
	revoke(t, s, r.Key, false)
	spared(t, s, r.Key)
}

func forgetSparesCooldown(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	r.MinHold = h.long()
	release(t, s, h.Grant(t, s, r), succeeded)
	spared(t, s, r.Key)
}

func forgetSparesPause(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	release(t, s, h.Grant(t, s, r), succeeded)
	pause(t, s, r.Key, h.long())
	spared(t, s, r.Key)
	paused(t, s, rival(r))
}

// The holder may be alive, whatever the store's clock says, and must be called first.
func forgetSparesVanished(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	r.TTL = h.Unit
	l := h.Grant(t, s, r)
	h.pass(2 * r.TTL)
	spared(t, s, r.Key)
	reasserted(t, s, l)
}

func forgottenForGood(t *testing.T, h Harness) {
	for _, token := range []bool{false, true} {
		s, r := operate(t, h), h.request()
		l := h.Grant(t, s, r)
		release(t, s, l, succeeded)
		forget(t, s, r.Key, token)
		refused(t, s, r, lease.ErrReleased)
		lost(t, s, l)
		forgotten(t, s, r.Key, map[bool]int64{false: l.Token, true: 0}[token])
	}
}

func forgetNothing(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	forget(t, s, r.Key, false)
	forget(t, s, r.Key, true)
	forgotten(t, s, r.Key, 0)
	if listed(t, s, r.Key) {
		t.Error("a key that nobody knows is listed")
	}
	h.Grant(t, s, r)
}

func forgetSparesForeign(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	h.Put(t, r.Key, "another program's")
	spared(t, s, r.Key)
}
