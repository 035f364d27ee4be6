package leasetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// operateTests: what operators do.
func operateTests(h Harness) []test {
	tests := []test{
		{"a key that nobody knows is free", unknownIsFree},
		{"the status shows who leads", statusShowsLeader},
		{"the status shows what is left of a released key", statusAfterRelease},
		{"the status shows how many starts a tick may have", statusShowsTries},
		{"the status shows a holder that vanished", statusAfterCrash},
		{"the status shows a cooldown", statusShowsCooldown},
		{"the status changes nothing", statusChangesNothing},
		{"the status shows the last runs, newest first", statusShowsRuns},
		{"keys are listed in order", keysAreListed},
		{"a holder is asked to hand over", handOverAsks},
		{"nobody leads: nobody is asked to hand over", handOverAsksNobody},
		{"the next holder is not asked to hand over", handOverIsForOne},
		{"a revoked holder has lost and frees the key", revokeTakes},
		{"a revoked key is free when its holder is dead", revokeOfADeadHolder},
		{"a start of a revoked holder that ran nothing is taken back, also late", revokedStartTakenBack},
		{"a revoked key ends its minimum hold with the release", revokeEndsHold},
		{"revoked at once: the key is free", revokeAtOnce},
		{"revoking again changes nothing", revokeTwice},
		{"who follows a key sees each change of its leader, or learns that he cannot", follow},
		{"a cooldown can be revoked", revokeOfACooldown},
		{"a free key is revoked at once only", revokeOfAFreeKey},
		{"no late message brings a revoked candidacy back", revokedForGood},
	}
	if h.Wakes {
		tests = append(tests, test{"the release of a revoked key wakes a standby", revokedReleaseWakes},
			test{"a key that is revoked at once wakes a standby", revokeAtOnceWakes})
	}
	if h.Put != nil {
		tests = append(tests, test{"a foreign value is shown, and revoked at once only", operateForeign})
	}
	if h.Forget != nil {
		tests = append(tests, test{"a key that is gone is revoked at once only", revokeOfAForgottenKey})
	}
	return tests
}

// operated is a store for candidates and operators.
type operated interface {
	lease.Store
	lease.Admin
}

func operate(t *testing.T, h Harness) operated {
	t.Helper()
	s, ok := h.Open(t).(operated)
	if !ok {
		t.Fatal("the store is no lease.Admin")
	}
	return s
}

func inspect(t *testing.T, s lease.Admin, key string) lease.Status {
	t.Helper()
	status, err := s.Inspect(bounded(t), key)
	must.Succeed(t, err)
	if status.Key != key {
		t.Errorf("status of %q, asked for %q", status.Key, key)
	}
	return status
}

// is checks the parts of a key's status that do not change with time.
func is(t *testing.T, got lease.Status, why lease.How, holder lease.Holder) {
	t.Helper()
	if got.Why != why || got.Holder != holder {
		t.Errorf("status %q with the holder %q, want %q and %q", got.Why, got.Holder, why, holder)
	}
	if (why == "") != (got.Value == "") || !strings.Contains(got.Value, string(holder)) && why != "" {
		t.Errorf("%q stands at the key", got.Value)
	}
	if got.Remaining < 0 || why == "" && got.Remaining > 0 {
		t.Errorf("%s left", got.Remaining)
	}
}

func listed(t *testing.T, s lease.Admin, key string) bool {
	t.Helper()
	keys, err := s.Keys(bounded(t))
	must.Succeed(t, err)
	if !slices.IsSorted(keys) || len(slices.Compact(slices.Clone(keys))) != len(keys) {
		t.Errorf("not in order: %q", keys)
	}
	return slices.Contains(keys, key)
}

func handOver(t *testing.T, s lease.Admin, key string) lease.Status {
	t.Helper()
	status, err := s.HandOver(bounded(t), key)
	must.Succeed(t, err)
	return status
}

func revoke(t *testing.T, s lease.Admin, key string, now bool) lease.Status {
	t.Helper()
	status, err := s.Revoke(bounded(t), key, now)
	must.Succeed(t, err)
	return status
}

func unknownIsFree(t *testing.T, h Harness) {
	s, key := operate(t, h), h.request().Key
	for _, status := range []lease.Status{inspect(t, s, key), handOver(t, s, key), revoke(t, s, key, false), inspect(t, s, key)} {
		is(t, status, "", "")
		if status.Token != 0 || status.Since != 0 || status.Tick != 0 || status.Starts != 0 || status.HandOver || status.Meta != "" || len(status.Runs) > 0 {
			t.Errorf("the status of an unknown key: %+v", status)
		}
	}
	if listed(t, s, key) {
		t.Error("to ask for a key made it")
	}
}

func statusShowsLeader(t *testing.T, h Harness) {
	s, r := operate(t, h), h.ticking()
	r.MinHold, r.Meta = h.Unit, `{"command":"job"}`
	l := h.Grant(t, s, r)
	first := inspect(t, s, r.Key)
	is(t, first, lease.Held, r.Holder)
	if first.Token != l.Token || first.TTL != r.TTL || first.Tick != l.Tick || first.Starts != 1 || first.Meta != r.Meta ||
		first.ServedTick != 0 || first.HandOver || len(first.Runs) > 0 || first.MinHoldUntil-first.Since != r.MinHold.Milliseconds() {
		t.Errorf("granted %+v, status %+v", l, first)
	}
	h.pass(2 * h.Unit)
	renew(t, s, l)
	later := inspect(t, s, r.Key)
	if later.Since != first.Since || later.Now-later.Since < h.Unit.Milliseconds() || later.Now-later.Since > (2*h.Unit+patience).Milliseconds() {
		t.Errorf("granted at %d, now it is %d; before, at %d, it was granted at %d", later.Since, later.Now, first.Now, first.Since)
	}
	if later.Remaining > r.TTL || later.Remaining < r.TTL-patience {
		t.Errorf("%s left after a renewal by %s", later.Remaining, r.TTL)
	}
}

func statusShowsTries(t *testing.T, h Harness) {
	s, r := operate(t, h), h.naming()
	release(t, s, h.Grant(t, s, r), failed)
	plain := rival(r) // of a run without ticks
	plain.Exact, plain.Tries = false, 0
	l := h.Grant(t, s, plain)
	if status := inspect(t, s, r.Key); status.Tick != 0 {
		t.Errorf("a run without ticks has the tick %d", status.Tick)
	}
	release(t, s, l, succeeded)
	status := inspect(t, s, r.Key)
	if status.Tries != r.Tries {
		t.Errorf("%d tries, want %d", status.Tries, r.Tries)
	}
	if tick := status.Runs[0].Tick; tick != 0 {
		t.Errorf("a run without ticks is filed with the tick %d", tick)
	}
}

func statusAfterRelease(t *testing.T, h Harness) {
	s, r := operate(t, h), h.ticking()
	r.Meta = `{}`
	l := h.Grant(t, s, r)
	release(t, s, l, succeeded)
	status := inspect(t, s, r.Key)
	is(t, status, "", "")
	if status.Token != l.Token || status.ServedTick != l.Tick || status.Starts != 1 || status.Tries != r.Tries || status.Period != r.Period || status.Since != 0 || status.TTL != 0 || status.Tick != 0 || status.Meta != "" {
		t.Errorf("released %+v, status %+v", l, status)
	}
	filed(t, status, l, false, 0)
}

// filed checks that the newest run is that of l.
func filed(t *testing.T, status lease.Status, l lease.Lease, vanished bool, exit int) {
	t.Helper()
	if len(status.Runs) == 0 {
		t.Fatal("no run is shown")
	}
	r := status.Runs[0]
	if r.Token != l.Token || r.Holder != l.Holder || r.Host != l.Holder.Host() || r.Tick != l.Tick || r.Vanished != vanished || r.Exit != exit {
		t.Errorf("the newest run is %+v, want that of %+v, vanished %t, exit %d", r, l, vanished, exit)
	}
	if r.Start <= status.Now-time.Hour.Milliseconds() || r.Start > status.Now || !vanished && (r.End < r.Start || r.End > status.Now) {
		t.Errorf("it ran from %d to %d, now it is %d", r.Start, r.End, status.Now)
	}
}

func statusAfterCrash(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	r.TTL = h.Unit
	l := h.Grant(t, s, r)
	h.pass(2 * h.Unit)
	status := inspect(t, s, r.Key)
	is(t, status, "", r.Holder)
	if status.Token != l.Token || status.Since == 0 {
		t.Errorf("status %+v after the crash of %+v", status, l)
	}
	release(t, s, h.Grant(t, s, rival(r)), notRun)
	filed(t, inspect(t, s, r.Key), l, true, 0)
}

func statusShowsCooldown(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	r.MinHold = 10 * h.Unit
	l := h.Grant(t, s, r)
	release(t, s, l, failed)
	status := inspect(t, s, r.Key)
	is(t, status, lease.Cooldown, "")
	if status.Remaining == 0 || status.Remaining > r.MinHold || status.MinHoldUntil <= status.Now || !strings.Contains(status.Value, string(r.Holder)) {
		t.Errorf("status %+v in the minimum hold of %+v", status, l)
	}
	filed(t, status, l, false, failed.Exit)
	h.pass(11 * h.Unit)
	is(t, inspect(t, s, r.Key), "", "")
}

func statusChangesNothing(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	r.TTL = 8 * h.Unit
	l := h.Grant(t, s, r)
	h.pass(3 * h.Unit)
	for range 3 {
		if left := inspect(t, s, r.Key).Remaining; left > r.TTL-3*h.Unit {
			t.Errorf("%s left of %s after %s", left, r.TTL, 3*h.Unit)
		}
	}
	h.pass(6 * h.Unit)
	is(t, inspect(t, s, r.Key), "", r.Holder)
	reasserted(t, s, l)
}

func statusShowsRuns(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	for exit := range lease.MaxRuns + 2 {
		r = rival(r)
		l := h.Grant(t, s, r)
		release(t, s, l, lease.Result{Ran: true, Exit: exit})
		filed(t, inspect(t, s, r.Key), l, false, exit)
	}
	runs := inspect(t, s, r.Key).Runs
	if len(runs) != lease.MaxRuns || !slices.IsSortedFunc(runs, func(a, b lease.Run) int { return int(b.Token - a.Token) }) {
		t.Errorf("%d runs: %+v", len(runs), runs)
	}
}

func keysAreListed(t *testing.T, h Harness) {
	s, base := operate(t, h), h.request().Key
	for _, suffix := range []string{"", ":b", ":a", "/x/y", ".json", "-", "/", ":"} {
		r := h.request()
		r.Key = base + suffix
		release(t, s, h.Grant(t, s, r), succeeded)
		if !listed(t, s, r.Key) {
			t.Errorf("%q is not listed", r.Key)
		}
	}
	if keys, _ := s.Keys(bounded(t)); slices.ContainsFunc(keys, func(key string) bool { return !lease.ValidKey(key) }) {
		t.Errorf("listed %q", keys)
	}
	held := h.request()
	h.Grant(t, s, held)
	if !listed(t, operate(t, h), held.Key) {
		t.Error("a key that is held is not listed")
	}
}

func handOverAsks(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	l := renew(t, s, h.Grant(t, s, r))
	if l.HandOver || inspect(t, s, r.Key).HandOver {
		t.Error("asked, and nobody did")
	}
	heard := h.listen(t, s, r.Key)
	for range 2 {
		asked := handOver(t, operate(t, h), r.Key)
		is(t, asked, lease.Held, r.Holder)
		if !asked.HandOver || asked.Token != l.Token {
			t.Errorf("status %+v, asked for a hand-over", asked)
		}
	}
	heard()
	for range 2 {
		if l = renew(t, s, l); !l.HandOver {
			t.Error("the holder is not asked")
		}
	}
	if !inspect(t, s, r.Key).HandOver {
		t.Error("the status does not show it")
	}
	release(t, s, l, succeeded)
	if status := inspect(t, s, r.Key); status.HandOver {
		t.Errorf("still asked: %+v", status)
	}
}

// listen starts to listen for the holder, if the store can call it, and returns a function
// that checks that a call came.
func (h Harness) listen(t *testing.T, s lease.Store, key string) (heard func()) {
	t.Helper()
	if h.Uncalled {
		if !errors.Is(s.Listen(bounded(t), key), lease.ErrNoWakeups) {
			t.Error("a store that cannot call does not say so")
		}
		return func() {}
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	over := make(chan error, 1)
	go func() { over <- s.Listen(ctx, key) }()
	for late := time.Now().Add(patience); h.Listens != nil && !h.Listens(t, key); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("nobody listens")
		}
	}
	return func() {
		t.Helper()
		select {
		case err := <-over:
			if err != nil {
				t.Errorf("listen: %v", err)
			}
		case <-time.After(patience):
			t.Error("the holder was not called")
		}
	}
}

func follow(t *testing.T, h Harness) {
	s, other, r := operate(t, h), operate(t, h), h.request()
	var l lease.Lease
	for _, change := range []func(){
		func() { l = h.Grant(t, s, r) },
		func() { revoke(t, s, r.Key, false) },
		func() { release(t, s, l, succeeded) },
	} {
		from, over := inspect(t, other, r.Key), make(chan error, 1)
		go func() { over <- other.Follow(bounded(t), from, time.Hour) }()
		change()
		if err := <-over; err != nil && !errors.Is(err, lease.ErrNoWakeups) {
			t.Errorf("after %s: %v", from.How(), err)
		}
	}
}

func handOverAsksNobody(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	r.MinHold = h.long()
	l := h.Grant(t, s, r)
	handOver(t, s, r.Key)
	release(t, s, l, succeeded)
	cooling := handOver(t, s, r.Key)
	is(t, cooling, lease.Cooldown, "")
	revoke(t, s, r.Key, false)
	free := handOver(t, s, r.Key)
	is(t, free, "", "")
	brief := rival(r)
	brief.TTL, brief.MinHold = h.Unit, 0
	last := h.Grant(t, s, brief)
	h.pass(2 * h.Unit)
	vanished := handOver(t, s, r.Key)
	is(t, vanished, "", brief.Holder)
	if cooling.HandOver || free.HandOver || vanished.HandOver || vanished.Token != last.Token {
		t.Errorf("asked somebody: %+v, %+v, %+v", cooling, free, vanished)
	}
	if next := h.Grant(t, s, rival(brief)); renew(t, s, next).HandOver {
		t.Error("the next holder was asked")
	}
}

func handOverIsForOne(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	l := h.Grant(t, s, r)
	handOver(t, s, r.Key)
	release(t, s, l, succeeded)
	if next := h.Grant(t, s, rival(r)); next.HandOver || renew(t, s, next).HandOver || inspect(t, s, r.Key).HandOver {
		t.Error("the holder after a release is asked")
	}
	brief := h.request()
	brief.TTL = h.Unit
	h.Grant(t, s, brief)
	handOver(t, s, brief.Key)
	h.pass(2 * h.Unit)
	if inspect(t, s, brief.Key).HandOver {
		t.Error("a holder that vanished is asked")
	}
	brief = rival(brief)
	brief.TTL = h.long()
	if next := h.Grant(t, s, brief); next.HandOver || renew(t, s, next).HandOver || inspect(t, s, brief.Key).HandOver {
		t.Error("the holder after an expiry is asked")
	}
}

func operateForeign(t *testing.T, h Harness) {
	s := operate(t, h)
	for _, value := range []string{"somebody", "", "cooldown:somebody", " \x00\xff\n\x1b[2J", strings.Repeat("x", 1<<20)} {
		r := h.request()
		l := h.Grant(t, s, r)
		h.Put(t, r.Key, value)
		for _, status := range []lease.Status{inspect(t, s, r.Key), handOver(t, s, r.Key), revoke(t, s, r.Key, false), inspect(t, s, r.Key)} {
			if status.Why != lease.Foreign || status.Value != shown(value) || status.Holder != "" || status.Token < l.Token || status.Remaining != 0 || status.HandOver {
				t.Errorf("status %+v, %.40q stands there", status, value)
			}
		}
		if got := h.Get(t, r.Key); got != value {
			t.Errorf("%.40q became %.40q", value, got)
		}
		if before := revoke(t, s, r.Key, true); before.Why != lease.Foreign {
			t.Errorf("status before: %+v", before)
		}
		status := inspect(t, s, r.Key)
		is(t, status, "", "")
		lost(t, s, l)
		if next, err := s.Acquire(bounded(t), rival(r)); err != nil || next.Token <= status.Token || status.Token <= l.Token {
			t.Errorf("acquire: %+v, error %v, the status before was %+v", next, err, status)
		}
	}
}
