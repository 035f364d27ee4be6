package lease

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// Every condition in words, as far as it is known.
func TestConditionsInWords(t *testing.T) {
	t.Setenv("TZ", "UTC")
	local := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = local })
	const db1 = "db1/4711/0123456789abcdef0123456789abcdef"
	now := time.Date(2026, 3, 1, 22, 0, 0, 0, time.UTC)
	pause := Pause{Since: 1, Until: now.Add(2 * time.Hour).UnixMilli(), By: "ann@db1"}
	because := pause
	because.Reason = "upgrade"
	for want, c := range map[string]Condition{
		"db1 leads":          {How: Held, Value: db1},
		"db1 has led for 5m": {How: Held, Value: db1, Since: 5 * time.Minute},
		"db1 has led for 5m and was asked to hand over": {How: Held, Host: "db1", Since: 5 * time.Minute, HandOver: true},
		`"\x1b[2J" leads`:                                                              {How: Held, Value: "\x1b[2J"},
		"the minimum hold of the last run goes on":                                     {How: Cooldown},
		"the minimum hold of the last run goes on for another 12s":                     {How: Cooldown, Remaining: 12 * time.Second},
		"the lease was taken from db1, which has 12s to stop its command":              {How: Revoked, Value: "revoked:" + db1, Remaining: 12 * time.Second},
		"the lease was taken from its holder, which may still be stopping its command": {How: Revoked},
		`the key holds "x\n", which leaderrun did not write`:                           {How: Foreign, Value: "x\n"},
		"paused until 2026-03-02 00:00:00 UTC (2h left) by ann@db1: upgrade":           {How: Paused, Pause: because, Remaining: 2 * time.Hour},
		"paused until 2026-03-02 00:00:00 UTC by ann@db1":                              {How: Paused, Pause: pause},
		"the key settles for 300ms (restarted)":                                        {How: Settling, Remaining: 300 * time.Millisecond, Settle: SettleRestarted},
		"nobody leads, the last leader did not report its end":                         {How: Vanished, Token: 7},
		"nobody leads":                                 {How: Free, Token: 7},
		"nobody has ever led":                          {How: Free},
		"a run on db1 succeeded 12s ago":               {How: Served, Host: "db1", Since: 12 * time.Second},
		"the tick of 21:30 has been served":            {How: Served, Since: 30 * time.Minute},
		"the tick of 2026-02-28 22:00 has been served": {How: Served, Since: 24 * time.Hour},
		"the tick of 21:59 has had its last try":       {How: GivenUp, Since: time.Minute},
		"the tick is that of another time than the store's, which is 2026-03-01T22:00:00Z":  {How: ClockDiffers, Tick: now.UnixMilli()},
		"what the store holds for this key was not written by leaderrun, or by a newer one": {How: Unreadable},
	} {
		if got := c.text(now); got != want {
			t.Errorf("%s: %s, want %s", c.How, got, want)
		}
	}
}

// A condition as time goes by, in whole seconds, and without what changes.
func TestConditionsLast(t *testing.T) {
	c := Condition{How: Held, Host: "db1", Since: 5400 * time.Millisecond, Remaining: 20 * time.Second}
	if got := c.After(2300 * time.Millisecond); got.Since != 8*time.Second || got.Remaining != 18*time.Second {
		t.Errorf("%+v", got)
	}
	if got := c.After(time.Hour).Remaining; got != 0 {
		t.Errorf("%s remain", got)
	}
	if got := (Condition{How: Held}).After(time.Hour).Since; got != 0 {
		t.Errorf("led for %s, which is unknown", got)
	}
	if got := c.Lasting().String(); got != "db1 leads" {
		t.Error(got)
	}
}

// Each denial of a store says how the key is; other errors do not.
func TestConditionOf(t *testing.T) {
	for want, err := range map[How]error{
		Held: &HeldError{Why: Held}, Foreign: &HeldError{Why: Foreign}, Paused: &PausedError{}, Settling: &SettlingError{},
		Served: &DoneError{}, GivenUp: &DoneError{GivenUp: true}, ClockDiffers: &ClockError{},
	} {
		if c, ok := ConditionOf(fmt.Errorf("acquire: %w", err)); !ok || c.How != want {
			t.Errorf("%T: %t, %s, want %s", err, ok, c.How, want)
		}
	}
	for _, err := range []error{nil, ErrLost, ErrReleased, errors.New("x"), &StoreError{Err: errors.New("x")}} {
		if c, ok := ConditionOf(err); ok {
			t.Errorf("%v is no denial, it says %s", err, c.How)
		}
	}
}
