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
		"db1 leads":          {Why: Held, Value: db1},
		"db1 has led for 5m": {Why: Held, Value: db1, Since: 5 * time.Minute},
		"db1 has led for 5m and was asked to hand over": {Why: Held, Host: "db1", Since: 5 * time.Minute, HandOver: true},
		`"\x1b[2J" leads`:                                                              {Why: Held, Value: "\x1b[2J"},
		"the minimum hold of the last run goes on":                                     {Why: Cooldown},
		"the minimum hold of the last run goes on for another 12s":                     {Why: Cooldown, Remaining: 12 * time.Second},
		"the lease was taken from db1, which has 12s to stop its command":              {Why: Revoked, Value: "revoked:" + db1, Remaining: 12 * time.Second},
		"the lease was taken from its holder, which may still be stopping its command": {Why: Revoked},
		`the key holds "x\n", which leaderrun did not write`:                           {Why: Foreign, Value: "x\n"},
		"paused until 2026-03-02 00:00:00 UTC (2h left) by ann@db1: upgrade":           {Why: Paused, Pause: because, Remaining: 2 * time.Hour},
		"paused until 2026-03-02 00:00:00 UTC by ann@db1":                              {Why: Paused, Pause: pause},
		"the key settles for 300ms (restarted)":                                        {Why: Settling, Remaining: 300 * time.Millisecond, Settle: SettleRestarted},
		"nobody leads, the last leader did not report its end":                         {Why: Vanished, Token: 7},
		"nobody leads":                            {Why: Free, Token: 7},
		"nobody has ever led":                     {Why: Free},
		"the run of 21:59 succeeded on db1":       {Why: Served, Host: "db1", Since: 12 * time.Second},
		"the tick of 21:30 has been served":       {Why: Served, Since: 30 * time.Minute},
		"the tick of 02-28 22:00 has been served": {Why: Served, Since: 24 * time.Hour},
		"the tick of 21:59 has had its last try":  {Why: GivenUp, Since: time.Minute},
		"the tick is that of another time than the store's, which is 2026-03-01T22:00:00Z":  {Why: ClockDiffers, Tick: now.UnixMilli()},
		"what the store holds for this key was not written by leaderrun, or by a newer one": {Why: Unreadable},
	} {
		if got := c.text(now); got != want {
			t.Errorf("%s: %s, want %s", c.Why, got, want)
		}
	}
}

// A condition as time goes by, in whole seconds, and without what changes.
func TestConditionsLast(t *testing.T) {
	c := Condition{Why: Held, Host: "db1", Since: 5400 * time.Millisecond, Remaining: 20 * time.Second}
	if got := c.After(2300 * time.Millisecond); got.Since != 8*time.Second || got.Remaining != 18*time.Second {
		t.Errorf("%+v", got)
	}
	if got := c.After(time.Hour).Remaining; got != 0 {
		t.Errorf("%s remain", got)
	}
	if got := (Condition{Why: Held}).After(time.Hour).Since; got != 0 {
		t.Errorf("led for %s, which is unknown", got)
	}
	if got := c.Lasting().String(); got != "db1 leads" {
		t.Error(got)
	}
}

// Each denial of a store says how the key is; other errors do not.
func TestConditionOf(t *testing.T) {
	c := Condition{Why: Held, Token: 7}
	for _, err := range []error{&HeldError{c}, &PausedError{c}, &SettlingError{c}, &DoneError{c}, &ClockError{c}} {
		if got, ok := ConditionOf(fmt.Errorf("acquire: %w", err)); !ok || got != c || err.Error() != c.String() {
			t.Errorf("%T: %t, %+v, %s", err, ok, got, err)
		}
	}
	for _, err := range []error{nil, ErrLost, ErrReleased, errors.New("x"), &StoreError{Err: errors.New("x")}} {
		if c, ok := ConditionOf(err); ok {
			t.Errorf("%v is no denial, it says %s", err, c.Why)
		}
	}
}
