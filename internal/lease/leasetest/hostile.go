package leasetest

import (
	"cmp"
	"errors"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// wipeTests: the store loses all data.
var wipeTests = []test{
	{"after a wipe the living holder keeps its lease", wipeKeepsHolder},
	{"after a wipe a candidate waits for the living holder", wipeSettles},
	{"after a wipe a standby waits the ttl of the holder it saw", wipeRollback},
	{"after a wipe an expired holder that renews is believed", wipeExpired},
	{"after a wipe and another grant the old holder has lost", wipeAnotherGrant},
	{"tokens increase over a wipe", wipeTokens},
	{"after a wipe a holder is revoked at once", revokeOfAForgottenHolder},
}

// hostileTests: another program writes into the store.
func hostileTests(h Harness) []test {
	var tests []test
	if h.Forget != nil {
		tests = append(tests,
			test{"a holder whose key is gone takes it back", forgetReasserts},
			test{"a candidate waits for a holder whose key is gone", forgetSettles},
			test{"a release after the key is gone ends the candidacy", forgetRelease},
		)
	}
	if h.Put != nil {
		tests = append(tests,
			test{"a foreign value denies and is never changed", foreignDenies},
			test{"a foreign value takes the lease from its holder", foreignTakes},
			test{"a holder id without an expiry gets one again", endlessIsRepaired},
		)
	}
	for _, d := range h.Damage {
		tests = append(tests, test{"damage: " + d.Name, func(t *testing.T, h Harness) { damaged(t, h, d) }})
	}
	return tests
}

func wipeKeepsHolder(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	l := h.Grant(t, s, r)
	h.Wipe(t)
	reasserted(t, s, l)
	held(t, s, rival(r), lease.Held)
	release(t, s, l, succeeded)
	refused(t, s, r, lease.ErrReleased)
}

// reasserted checks that the next renewal restores the key, and that only this one says so.
func reasserted(t *testing.T, s lease.Store, l lease.Lease) {
	t.Helper()
	renewed := renew(t, s, l)
	if !renewed.Reasserted || renewed.Token != l.Token || renewed.MinHoldUntil != l.MinHoldUntil || renewed.Tick != l.Tick {
		t.Errorf("re-asserted %+v as %+v", l, renewed)
	}
	if again := renew(t, s, renewed); again.Reasserted || again.Token != l.Token {
		t.Errorf("renewed %+v as %+v", renewed, again)
	}
}

func wipeSettles(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	l := h.Grant(t, s, r)
	h.Wipe(t)
	if h.Settles {
		settling := settles(t, s, rival(r))
		if settling.Settle != lease.SettleFresh {
			t.Errorf("settles because it is %s, want %s", settling.Settle, lease.SettleFresh)
		}
		reasserted(t, s, l)
		held(t, s, rival(r), lease.Held)
		return
	}
	h.Grant(t, s, rival(r)) // a store that does not settle must at least say so
	lost(t, s, l)
}

func wipeRollback(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	l := h.Grant(t, s, r)
	standby := rival(r)
	denied := held(t, s, standby, lease.Held)
	standby.Seen.Token, standby.Seen.TTL = denied.Token, denied.TTL
	h.Wipe(t)
	if settling := settles(t, s, standby); settling.Settle != lease.SettleRollback {
		t.Errorf("settles because it is %s, want %s", settling.Settle, lease.SettleRollback)
	}
	reasserted(t, s, l)
	held(t, s, standby, lease.Held)
	release(t, s, l, succeeded)
	if next := h.Grant(t, s, standby); next.Token <= l.Token {
		t.Errorf("token %d after %d", next.Token, l.Token)
	}
}

func wipeExpired(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	r.TTL = 5 * h.Unit
	l := h.Grant(t, s, r)
	h.Wipe(t)
	h.pass(6 * h.Unit)
	reasserted(t, s, l) // the holder's own clock decides whether it renews
	held(t, s, rival(r), lease.Held)
}

func wipeAnotherGrant(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	old := h.Grant(t, s, r)
	h.Wipe(t)
	next := h.Grant(t, s, rival(r))
	lost(t, s, old)
	releaseLost(t, s, old, succeeded)
	renew(t, s, next)
}

func wipeTokens(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	last := h.Grant(t, s, r)
	for range 3 {
		h.pass(h.Unit) // the floor of the tokens is the store's clock
		h.Wipe(t)
		next := h.Grant(t, s, rival(r))
		if next.Token <= last.Token {
			t.Errorf("token %d after a wipe, %d before", next.Token, last.Token)
		}
		last = next
	}
}

func forgetReasserts(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	r.MinHold = h.Unit
	l := h.Grant(t, s, r)
	h.Forget(t, r.Key)
	reasserted(t, s, l)
	held(t, s, rival(r), lease.Held)
}

func forgetSettles(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	r.TTL = 8 * h.Unit
	l := h.Grant(t, s, r)
	h.Forget(t, r.Key)
	settling := settles(t, s, rival(r))
	if settling.Settle != lease.SettleVanished || settling.Remaining > r.TTL+h.Unit {
		t.Errorf("settles: %v, the ttl was %s", settling, r.TTL)
	}
	reasserted(t, s, l)
	held(t, s, rival(r), lease.Held)

	h.Forget(t, r.Key) // and now the holder is dead, too
	if next := h.Grant(t, s, rival(r)); next.Token <= l.Token {
		t.Errorf("token %d after %d", next.Token, l.Token)
	}
	lost(t, s, l)
}

func forgetRelease(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	l := h.Grant(t, s, r)
	h.Forget(t, r.Key)
	release(t, s, l, succeeded)
	refused(t, s, r, lease.ErrReleased)
	if _, err := s.Acquire(bounded(t), rival(r)); err != nil {
		t.Errorf("acquire after the release: %v", err) // there is no holder to wait for
	}
}

func foreignDenies(t *testing.T, h Harness) {
	s := h.Open(t)
	for _, value := range []string{
		"somebody", "", "0", "cooldown:", "cooldown:somebody", "revoked:a/1/b", "host/1/ABCDEF", " \x00\xff\n",
		"a host/1/0123456789abcdef0123456789abcdef", strings.Repeat("x", 5000),
	} {
		r := h.request()
		r.TTL = h.Unit
		h.Put(t, r.Key, value)
		denied := held(t, s, r, lease.Foreign)
		if denied.Value != shown(value) || denied.Remaining <= 0 {
			t.Errorf("denied by %+v, %q stands there", denied, value)
		}
		h.pass(2 * h.Unit)
		held(t, s, r, lease.Foreign)
		if got := h.Get(t, r.Key); got != value {
			t.Errorf("%q became %q", value, got)
		}
	}
}

// shown returns how a store shows another program's value.
func shown(value string) string { return lease.Cut(cmp.Or(value, `""`), lease.MaxValue) }

func foreignTakes(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	l := h.Grant(t, s, r)
	h.pass(h.Unit)
	h.Put(t, r.Key, "somebody")
	lost(t, s, l)
	releaseLost(t, s, l, succeeded)
	if since := held(t, s, rival(r), lease.Foreign).Since; since != 0 {
		t.Errorf("held for %s by nobody knows whom", since)
	}
	if got := h.Get(t, r.Key); got != "somebody" {
		t.Errorf("the foreign value became %q", got)
	}
}

func endlessIsRepaired(t *testing.T, h Harness) {
	s := h.Open(t)
	for _, prefix := range []string{"", "cooldown:", "revoked:"} {
		r := h.request()
		r.TTL = h.Unit
		h.Put(t, r.Key, prefix+string(rival(r).Holder))
		if l, err := s.Acquire(bounded(t), r); err == nil {
			t.Fatalf("granted %+v, although %q stood there", l, prefix)
		}
		h.pass(2 * h.Unit)
		h.Grant(t, s, r)
	}
}

func damaged(t *testing.T, h Harness, d Damage) {
	s, r := h.Open(t), h.request()
	d.Do(t, r.Key)
	_, err := s.Acquire(bounded(t), r)
	permanent(t, "acquire on a new key", err)

	r = h.request()
	l := h.Grant(t, s, r)
	d.Do(t, r.Key)
	for _, candidate := range []lease.Request{r, rival(r)} {
		_, err = s.Acquire(bounded(t), candidate)
		permanent(t, "acquire", err)
	}
	_, err = s.Renew(bounded(t), l)
	permanent(t, "renew", err)
	permanent(t, "release", s.Release(bounded(t), l, succeeded))
	operateDamaged(t, h, r.Key)
}

// The damaged part may not belong to the status; but nothing must be written.
func operateDamaged(t *testing.T, h Harness, key string) {
	s := operate(t, h)
	if _, err := s.Inspect(bounded(t), key); err != nil {
		permanent(t, "status", err)
	}
	_, err := s.HandOver(bounded(t), key)
	permanent(t, "hand over", err)
	for _, now := range []bool{false, true} {
		_, err = s.Revoke(bounded(t), key, now)
		permanent(t, "revoke", err)
	}
	listed(t, s, key)
}

func permanent(t *testing.T, op string, err error) {
	t.Helper()
	if failure, ok := errors.AsType[*lease.StoreError](err); !ok || !failure.Permanent || failure.Hint == "" {
		t.Errorf("%s: error %#v, want a permanent *StoreError with a hint", op, err)
	}
}
