package cmd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

func TestPause(t *testing.T) {
	s := storeAtNight()
	var b strings.Builder
	for _, key := range []string{"nightly", "reports", "report", "never"} {
		for _, how := range []struct {
			flags string
			ask   func() error
		}{
			{"--for 2h", func() error { return pause(t.Context(), s, key, pauseFlags{duration: "2h"}) }},
			{"--until T --reason R --hand-over", func() error {
				return pause(t.Context(), s, key, pauseFlags{until: "2026-11-21T06:00:00+02:00", reason: "why not", handOver: true})
			}},
			{"resume", func() error { return resume(t.Context(), s, key) }},
		} {
			s.asked = nil
			if s.keys[key].Now == 0 {
				s.keys[key] = lease.Status{Now: s.keys["nightly"].Now}
			}
			text, err := answer(t, how.ask)
			harmless(t, text, asTable)
			b.WriteString("> " + key + " " + how.flags + "  (asks: " + strings.Join(s.asked, ", ") + ")\n" + text)
			if err != nil {
				b.WriteString("status 1\n")
			}
		}
	}
	golden(t, "pause.table", b.String())
}

// noHandOver is a store that goes away once a key is paused.
type noHandOver struct{ *fakeStore }

func (noHandOver) HandOver(context.Context, string) (lease.Status, error) {
	return lease.Status{}, &lease.StoreError{Op: "hand over", Err: errors.New("no answer in time")}
}

// A pause whose hand-over fails is not kept from the operator.
func TestPauseWithoutItsHandOver(t *testing.T) {
	text, err := answer(t, func() error {
		return pause(t.Context(), noHandOver{storeAtNight()}, "nightly", pauseFlags{duration: "2h", handOver: true})
	})
	if !strings.Contains(text, "nightly: paused") || verbStatus(err) != exitUnavailable {
		t.Errorf("%q, %v", text, err)
	}
}

// The end of a pause is a time on the store's clock.
func TestLengthOfAPause(t *testing.T) {
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC).UnixMilli()
	for _, good := range []struct {
		flags pauseFlags
		want  time.Duration
	}{
		{pauseFlags{duration: "1ms"}, time.Millisecond},
		{pauseFlags{duration: "2160h"}, lease.MaxPause},
		{pauseFlags{until: "2026-11-21T06:00:00+02:00"}, time.Hour},
	} {
		if d, err := good.flags.length(now); err != nil || d != good.want {
			t.Errorf("%+v: %s, %v, want %s", good.flags, d, err, good.want)
		}
	}
	for problem, bad := range map[string]pauseFlags{
		"no end":            {},
		"another end":       {duration: "1h", until: "2026-11-21T06:00:00Z"},
		"needs a unit":      {duration: "5"},
		"is over already":   {duration: "0s"},
		"is over":           {until: "2026-11-21T02:59:59Z"},
		"is no time":        {until: "06:00"},
		"more than 90 days": {duration: "2160h1ms"},
		"than 90 days":      {until: "2027-11-21T06:00:00Z"},
	} {
		if d, err := bad.length(now); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%+v: %s, %v, want %q", bad, d, err, problem)
		}
	}
}
