package rules

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// from returns an attempt for a daily tick from a host.
func from(host string) lease.Request {
	r := request()
	r.Holder, r.Period = lease.NewHolder(host, 1), 24*time.Hour
	return r
}

func TestUnnoted(t *testing.T) {
	const hour = 3_600_000
	last := func(ago int64) []lease.Candidate {
		return []lease.Candidate{{Host: "web-1", First: noon.Wall - 2*ago, Last: noon.Wall - ago}}
	}
	denied := &lease.HeldError{}
	untimed := from("web-1")
	untimed.Period = 0
	for _, row := range []struct {
		name   string
		noted  []lease.Candidate
		r      lease.Request
		answer error
		want   bool
	}{
		{"denied, and never noted", nil, from("web-1"), denied, true},
		{"done", nil, from("web-1"), &lease.DoneError{}, true},
		{"paused", nil, from("web-1"), &lease.PausedError{}, true},
		{"another host is noted", last(1), from("web-2"), denied, true},
		{"noted an hour ago", last(hour), from("web-1"), denied, true},
		{"noted within the hour", last(hour - 1), from("web-1"), denied, false},
		{"noted by a clock that was ahead", last(-1), from("web-1"), denied, true},
		{"without ticks", nil, untimed, denied, false},
		{"granted, which notes it", nil, from("web-1"), nil, false},
		{"settling: it asks again", nil, from("web-1"), &lease.SettlingError{}, false},
		{"a wrong clock: it asks again", nil, from("web-1"), &lease.ClockError{}, false},
		{"no answer", nil, from("web-1"), &lease.StoreError{}, false},
	} {
		st := State{Candidates: row.noted}
		if got := st.Unnoted(row.r, row.answer, noon); got != row.want {
			t.Errorf("%s: %t", row.name, got)
		}
	}
	st := State{Grant: &Grant{Foreign: true}}
	if st.Unnoted(from("web-1"), denied, noon) {
		t.Error("it is to be noted beside another program's lease")
	}
}

func TestNote(t *testing.T) {
	const day = 86_400_000
	st := New("k")
	note := func(host string, at Instant, want ...string) {
		t.Helper()
		st.Note(from(host), at)
		var got []string
		for _, c := range st.Candidates {
			got = append(got, fmt.Sprintf("%s %d %d", c.Host, (c.First-noon.Wall)/day, (c.Last-noon.Wall)/day))
		}
		if !slices.Equal(got, want) {
			t.Errorf("noted %q, want %q", got, want)
		}
	}
	note("web-1", noon, "web-1 0 0")
	note("web-2", noon, "web-2 0 0", "web-1 0 0")
	note("web-1", noon.later(2*day), "web-1 0 2", "web-2 0 0")
	note("web-1", noon.later(35*day-1), "web-1 0 34", "web-2 0 0")
	note("web-1", noon.later(35*day), "web-1 0 35")                 // web-2 has not come for 35 days
	note("web-2", noon.later(100*day), "web-2 100 100")             // neither has web-1
	note("web-1", noon.later(36*day), "web-1 36 36", "web-2 36 36") // the clock was wrong before
	note("web-2", noon.later(37*day), "web-2 36 37", "web-1 36 36") // the clock is right now
	for host := range 70 {
		st.Note(from(fmt.Sprint("pod-", host)), noon.later(38*day))
	}
	if n := len(st.Candidates); n != 64 || st.Candidates[0].Host != "pod-69" || st.Candidates[63].Host != "pod-6" {
		t.Errorf("%d noted: %+v", n, st.Candidates)
	}
}
