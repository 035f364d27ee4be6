package leasetest

import (
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// pauseTests: nobody is granted the key for a while.
func pauseTests(h Harness) []test {
	tests := []test{
		{"a paused key is granted to nobody", pauseDenies},
		{"a pause ends by itself", pauseEnds},
		{"a pause leaves the holder its lease", pauseSparesHolder},
		{"a served tick needs no run in a pause either", pauseAfterServed},
		{"a pause changes neither token nor runs", pauseKeepsState},
		{"a second pause replaces the first", pauseAgain},
		{"a pause is bounded and fit for a terminal", pauseIsBounded},
		{"to resume what is not paused changes nothing", resumeNothing},
	}
	if h.Wakes {
		tests = append(tests, test{"a resumed key wakes a standby", resumeWakes},
			test{"a paused key wakes nobody", pauseWakesNobody})
	}
	if h.Forget != nil {
		tests = append(tests, test{"a holder that vanishes in a pause is followed after it", pauseOfAForgottenKey})
	}
	return tests
}

func pause(t *testing.T, s lease.Admin, key string, d time.Duration) {
	t.Helper()
	status, err := s.Pause(bounded(t), key, d, "ann@db1", "disk is full")
	must.Succeed(t, err)
	if p := status.Pause; p.Until-p.Since != d.Milliseconds() || p.Left(status.Now) != d || p.By != "ann@db1" || p.Reason != "disk is full" {
		t.Errorf("paused for %s at %d: %+v", d, status.Now, p)
	}
}

func resume(t *testing.T, s lease.Admin, key string) lease.Status {
	t.Helper()
	before, err := s.Resume(bounded(t), key)
	must.Succeed(t, err)
	return before
}

// paused checks that the acquire is denied by a pause.
func paused(t *testing.T, s lease.Store, r lease.Request) *lease.PausedError {
	t.Helper()
	denial := denies[*lease.PausedError](t, s, r)
	if denial.Remaining <= 0 || denial.Tick <= 0 {
		t.Fatalf("acquire: %+v, without its end or the store's time", denial)
	}
	return denial
}

func pauseDenies(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	pause(t, s, r.Key, h.long())
	denied := paused(t, s, r)
	if denied.Remaining > h.long() || denied.Pause.By != "ann@db1" || denied.Pause.Reason != "disk is full" {
		t.Errorf("denied with %+v", denied)
	}
	status := inspect(t, operate(t, h), r.Key)
	is(t, status, "", "")
	if status.Pause != denied.Pause || !listed(t, s, r.Key) {
		t.Errorf("the status is %+v, the denial %+v", status, denied)
	}
	if before := resume(t, s, r.Key); before.Pause != denied.Pause {
		t.Errorf("resumed %+v", before)
	}
	if status := inspect(t, s, r.Key); status.Pause != (lease.Pause{}) {
		t.Errorf("still paused: %+v", status)
	}
	h.Grant(t, s, r)
}

func pauseEnds(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	pause(t, s, r.Key, 2*h.Unit)
	paused(t, s, r)
	h.pass(3 * h.Unit)
	if status := inspect(t, s, r.Key); status.Pause != (lease.Pause{}) {
		t.Errorf("still paused: %+v", status)
	}
	h.Grant(t, s, r)
}

// The holder can renew its lease, extend it by a repeated request and restore it. Others are
// answered with the holder and not with the pause.
func pauseSparesHolder(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	r.TTL = 4 * h.Unit
	l := h.Grant(t, s, r)
	pause(t, s, r.Key, h.long())
	is(t, inspect(t, s, r.Key), lease.Held, r.Holder)
	held(t, s, rival(r), lease.Held)
	if again, err := s.Acquire(bounded(t), r); err != nil || again.Token != l.Token {
		t.Errorf("asked again: %+v, error %v", again, err)
	}
	l = renew(t, s, l)
	h.pass(5 * h.Unit)
	paused(t, s, rival(r))
	reasserted(t, s, l)
	release(t, s, l, succeeded)
	paused(t, s, rival(r))
}

func pauseAfterServed(t *testing.T, h Harness) {
	s, r := operate(t, h), h.ticking()
	l := h.Grant(t, s, r)
	release(t, s, l, succeeded)
	pause(t, s, r.Key, h.long())
	denies[*lease.DoneError](t, s, rival(r))
	next := rival(r)
	next.Tick = l.Tick + r.Period.Milliseconds()
	paused(t, s, next)
}

func pauseKeepsState(t *testing.T, h Harness) {
	s, r := operate(t, h), h.ticking()
	l := h.Grant(t, s, r)
	release(t, s, l, failed)
	pause(t, s, r.Key, h.long())
	paused(t, s, rival(r))
	status := inspect(t, s, r.Key)
	if status.Token != l.Token || status.Starts != 1 {
		t.Errorf("paused %+v, status %+v", l, status)
	}
	filed(t, status, l, false, failed.Exit)
	resume(t, s, r.Key)
	if next := h.Grant(t, s, rival(r)); next.Token <= l.Token || inspect(t, s, r.Key).Starts != 2 {
		t.Errorf("granted %+v after %+v", next, l)
	}
}

func pauseAgain(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	pause(t, s, r.Key, h.long())
	pause(t, s, r.Key, 2*h.Unit)
	h.pass(3 * h.Unit)
	h.Grant(t, s, r)
}

func pauseIsBounded(t *testing.T, h Harness) {
	s, key := operate(t, h), h.request().Key
	status, err := s.Pause(bounded(t), key, 400*24*time.Hour, strings.Repeat("\x1b[2J", 100), strings.Repeat("\n\xffä", 20_000))
	p := status.Pause
	if err != nil || p.Until-p.Since != lease.MaxPause.Milliseconds() {
		t.Errorf("paused until %d since %d, error %v", p.Until, p.Since, err)
	}
	for _, shown := range []lease.Pause{p, inspect(t, s, key).Pause} {
		for _, text := range []string{shown.By, shown.Reason} {
			if text == "" || len(text) > 1000 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%d bytes: %.50q", len(text), text)
			}
		}
	}
}

func resumeNothing(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	if before := resume(t, s, r.Key); before.Pause != (lease.Pause{}) || listed(t, s, r.Key) {
		t.Errorf("resumed %+v", before)
	}
	l := h.Grant(t, s, r)
	is(t, resume(t, s, r.Key), lease.Held, r.Holder)
	renew(t, s, l)
}

func resumeWakes(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	pause(t, s, r.Key, h.long())
	paused(t, s, r)
	wakes(t, clients(t, h, 1), r.Key, func() { resume(t, s, r.Key) })
}

// The candidate knows when to ask again, as in a settling.
func pauseWakesNobody(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	pause(t, s, r.Key, h.long())
	waitsOn(t, h.Open(t), r.Key, func() { paused(t, s, r) })
}

func pauseOfAForgottenKey(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	l := h.Grant(t, s, r)
	pause(t, s, r.Key, h.long())
	h.Forget(t, r.Key)
	paused(t, s, rival(r))
	reasserted(t, s, l)
	held(t, s, rival(r), lease.Held)
}
