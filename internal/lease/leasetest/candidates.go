package leasetest

import (
	"slices"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// candidateTests: a host that asks for a key with ticks is recorded.
func candidateTests(h Harness) []test {
	tests := []test{
		{"candidates with ticks are noted, whatever they are answered", candidatesNoted},
		{"candidates without ticks are not noted", candidatesWithoutTicks},
		{"a host is noted once", candidatesOnce},
		{"a forgotten key has no candidates", candidatesForgotten},
	}
	if h.Put != nil {
		tests = append(tests, test{"no candidate is noted beside a foreign value", candidatesBesideForeign})
	}
	return tests
}

// from returns r as another candidacy, from the given host.
func from(host string, r lease.Request) lease.Request {
	r.Holder = lease.NewHolder(host, 1)
	return r
}

// came checks that these hosts are recorded, the newest first, and returns the records.
func came(t *testing.T, s lease.Admin, key string, hosts ...string) []lease.Candidate {
	t.Helper()
	status := inspect(t, s, key)
	var noted []string
	for _, c := range status.Candidates {
		noted = append(noted, c.Host)
		if c.First <= 0 || c.Last < c.First || c.Last > status.Now {
			t.Errorf("at %d it is noted %+v", status.Now, c)
		}
	}
	if !slices.Equal(noted, hosts) {
		t.Errorf("%q are noted, want %q", noted, hosts)
	}
	return status.Candidates
}

func candidatesNoted(t *testing.T, h Harness) {
	s, r := operate(t, h), h.ticking()
	l := h.Grant(t, s, from("web-1", r))
	came(t, s, r.Key, "web-1")
	h.pass(h.Unit) // the records have different times
	held(t, s, from("web-2", r), lease.Held)
	came(t, s, r.Key, "web-2", "web-1")
	renew(t, s, l)
	release(t, s, l, succeeded)
	h.pass(h.Unit)
	late := from("web-3", r)
	late.Tick = l.Tick
	denies[*lease.DoneError](t, s, late)
	came(t, s, r.Key, "web-3", "web-2", "web-1")
	pause(t, s, r.Key, h.long())
	h.pass(h.Unit)
	next := from("web-4", r)
	next.Tick = l.Tick + 2*half
	paused(t, s, next)
	came(t, s, r.Key, "web-4", "web-3", "web-2", "web-1")
}

func candidatesWithoutTicks(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	l := h.Grant(t, s, from("web-1", r))
	held(t, s, from("web-2", r), lease.Held)
	release(t, s, l, succeeded)
	came(t, s, r.Key)
}

// Denials are recorded once an hour, grants always.
func candidatesOnce(t *testing.T, h Harness) {
	s, r := operate(t, h), h.ticking()
	l := h.Grant(t, s, from("web-1", r))
	held(t, s, from("web-2", r), lease.Held)
	before := came(t, s, r.Key, "web-2", "web-1")
	h.pass(2 * h.Unit)
	held(t, s, from("web-2", r), lease.Held)
	if now := came(t, s, r.Key, "web-2", "web-1"); !slices.Equal(now, before) {
		t.Errorf("noted %+v, and before %+v", now, before)
	}
	release(t, s, l, failed)
	h.Grant(t, s, from("web-2", r))
	now := came(t, s, r.Key, "web-2", "web-1")
	if now[0].First != before[0].First || now[0].Last <= before[0].Last || now[1] != before[1] {
		t.Errorf("noted %+v, and before %+v", now, before)
	}
}

func candidatesForgotten(t *testing.T, h Harness) {
	s, r := operate(t, h), h.ticking()
	release(t, s, h.Grant(t, s, from("web-1", r)), succeeded)
	forget(t, s, r.Key, false)
	came(t, s, r.Key)
}

func candidatesBesideForeign(t *testing.T, h Harness) {
	s, r := operate(t, h), h.ticking()
	h.Put(t, r.Key, "another program's")
	held(t, s, from("web-1", r), lease.Foreign)
	came(t, s, r.Key)
}
