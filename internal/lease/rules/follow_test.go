package rules

import (
	"errors"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// What a store shows of a lease where any program may write: who has the key then, for how long,
// and whether a candidate has to settle.
func TestFollow(t *testing.T) {
	const settling = 300
	here := noon
	here.Settle, here.Server, here.Serving = settling, "s", year
	r := request()
	led := func() *State {
		st := New("k")
		_, _ = st.Acquire(r, here)
		return &st
	}
	holder, minute := string(r.Holder), time.Minute.Milliseconds()
	rival := string(lease.NewHolder("rival", 1)) // leaderrun's form
	st := New("k")
	for name, c := range map[string]struct {
		st      *State
		is      Shown
		left    int64 // of the denial; 0: none
		why     lease.How
		settles lease.SettleReason
	}{
		"nobody, as recorded":                      {st: &st},
		"the holder, as recorded":                  {led(), Shown{Value: holder, Expires: here.Up + 1000}, 1000, lease.Held, ""},
		"the holder, without a new end":            {led(), Shown{Value: holder}, minute, lease.Held, ""},
		"the holder's lease is gone":               {led(), Shown{}, 0, "", lease.SettleVanished},
		"another program's":                        {led(), Shown{Value: "rival", Expires: here.Up + 6000, TTL: 6000, Acquired: here.Up - 1, Renewed: 3}, 6000, lease.Foreign, ""},
		"another program's, in place of nobody":    {&State{Version: Version, Key: "k"}, Shown{Value: "rival", Expires: here.Up + 6000, TTL: 6000}, 6000, lease.Foreign, ""},
		"another program's, without an end":        {led(), Shown{Value: "rival"}, endless.Milliseconds(), lease.Foreign, ""},
		"in leaderrun's form, of a lost state":     {&State{Version: Version, Key: "k", Token: 5}, Shown{Value: rival, Expires: here.Up + 6000, TTL: 6000}, 6000, lease.Foreign, ""},
		"in leaderrun's form, without an end":      {&State{Version: Version, Key: "k", Token: 5}, Shown{Value: rival}, 0, "", lease.SettleVanished},
		"with a mark, in leaderrun's form":         {&State{Version: Version, Key: "k", Token: 5}, Shown{Value: revokedMark + rival}, 0, "", lease.SettleVanished},
		"with a mark, not in leaderrun's form":     {&State{Version: Version, Key: "k", Token: 5}, Shown{Value: cooldownMark + "x"}, endless.Milliseconds(), lease.Foreign, ""},
		"an old rival's, which ended by the clock": {led(), Shown{Value: "rival", Expires: here.Up, TTL: 6000}, 0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := c.st.Token
			c.st.Follow(c.is, here)
			candidate := request()
			candidate.Holder = lease.NewHolder("candidate", 1)
			_, err := c.st.Acquire(candidate, here)
			denied, _ := errors.AsType[*lease.HeldError](err)
			settling, _ := errors.AsType[*lease.SettlingError](err)
			switch {
			case c.left > 0:
				if denied == nil || denied.Why != c.why || denied.Remaining != milliseconds(c.left) {
					t.Errorf("%+v, want %s for %d ms", err, c.why, c.left)
				}
			case c.settles != "":
				if settling == nil || settling.Settle != c.settles {
					t.Errorf("%+v, want that it settles: %s", err, c.settles)
				}
			case err != nil || c.st.Token <= before:
				t.Errorf("%v, token %d after %d", err, c.st.Token, before)
			}
		})
	}
}

// Whom another program overtook is never granted anything again, and its run has vanished. The
// state that is kept has nothing of that program, and each read of the same gives the same.
func TestOvertake(t *testing.T) {
	st := New("k")
	l := granted(t, &st, request(), noon)
	again := st
	again.Grant = new(*st.Grant)
	is := Shown{Value: "rival", Expires: noon.Up + 6000, TTL: 6000, Renewed: 7}
	st.Overtake(is, noon)
	again.Overtake(is, noon.later(1))
	if st.Token != again.Token || st.Token != l.Token+1 || st.Renewed != -7 || again.Renewed != -7 {
		t.Errorf("tokens %d and %d after %d, renewed %d and %d", st.Token, again.Token, l.Token, st.Renewed, again.Renewed)
	}
	if g := st.Grant; g.Acquired != noon.Up || g.MinHoldUntil != g.Acquired || again.Grant.Acquired != noon.Up+1 {
		t.Errorf("%+v", g)
	}
	if _, err := st.Renew(l, noon); !errors.Is(err, lease.ErrLost) {
		t.Errorf("renew: %v", err)
	}
	if kept := st.Kept(); kept.Grant != nil || kept.Renewed != 0 || len(kept.Runs) != 1 || !kept.Runs[0].Vanished {
		t.Errorf("%+v", kept)
	}
	is.Renewed = 0
	if st.Overtake(is, noon); st.Renewed != -1 {
		t.Errorf("renewed %d", st.Renewed)
	}
	if st.Overtake(Shown{}, noon); st.Grant != nil {
		t.Errorf("%+v", st.Grant)
	}
	own := New("k")
	granted(t, &own, request(), noon)
	if kept := own.Kept(); kept.Grant == nil || kept.Renewed == 0 {
		t.Errorf("%+v", kept)
	}
}

// An endless lease of another program has neither a TTL nor an end for people.
func TestStatusOfAnEndlessLease(t *testing.T) {
	st := New("k")
	st.Follow(Shown{Value: "rival"}, noon)
	if s := st.Status(noon); s.Why != lease.Foreign || s.TTL != 0 || s.Remaining != 0 {
		t.Errorf("%+v", s)
	}
	st = New("k")
	st.Follow(Shown{Value: "rival", Expires: noon.Up + 5, TTL: 6000}, noon)
	if s := st.Status(noon); s.TTL != 6*time.Second || s.Remaining != 5*time.Millisecond {
		t.Errorf("%+v", s)
	}
	own := New("k")
	r := request()
	r.TTL = endless
	granted(t, &own, r, noon)
	if s := own.Status(noon); s.TTL != endless || s.Remaining != endless {
		t.Errorf("%+v", s)
	}
}

// The lease of a holder may end a little before the time that was recorded: it has not vanished
// then, and not ended before.
func TestLeaseEndsEarlyByItsExpiry(t *testing.T) {
	for left, vanished := range map[int64]bool{0: false, 1: false, 20: false, 21: true} {
		st := New("k")
		l := granted(t, &st, request(), noon)
		now := noon.later(l.TTL.Milliseconds() - left)
		st.Follow(Shown{}, now)
		if st.Grant.Vanished != vanished || !vanished && st.Grant.lives(now) {
			t.Errorf("%d ms before its end: %+v", left, st.Grant)
		}
	}
}

// A run without a schedule has no tick in the record, whether it reported its end or not.
func TestBareRunHasNoTick(t *testing.T) {
	r := request()
	r.Recent = 30 * time.Second
	st := New("k")
	l := granted(t, &st, r, noon)
	if s := st.Status(noon); s.Tick != 0 {
		t.Errorf("%+v", s)
	}
	lost := st
	lost.Revoke(true, noon)
	_ = st.Release(l, lease.Result{Ran: true}, noon)
	for _, st := range []State{st, lost} {
		if len(st.Runs) != 1 || st.Runs[0].Tick != 0 {
			t.Errorf("%+v", st.Runs)
		}
	}
}

// The newest success counts, whatever order reports come in, unless its time is impossible.
func TestNewestSuccessCounts(t *testing.T) {
	st := New("k")
	report := func(host string, tick int64) {
		l := lease.Lease{Key: "k", Holder: lease.NewHolder(host, 1), Token: 1, Tick: tick, Recent: 30 * time.Second}
		_ = st.Release(l, lease.Result{Ran: true, Success: true}, noon)
	}
	for _, c := range []struct {
		host string
		tick int64
		want string
	}{
		{"a", noon.Wall, "a"},
		{"b", noon.Wall - 1, "a"},
		{"c", noon.Wall, "a"},
		{"d", noon.Wall + 30_000, "d"},
		{"e", noon.Wall, "d"},
		{"f", noon.Wall + 30_001, "f"},
		{"g", noon.Wall, "g"}, // that of f cannot be
	} {
		if report(c.host, c.tick); st.Success.Host != c.want {
			t.Errorf("after %s the success is that of %s, want %s", c.host, st.Success.Host, c.want)
		}
	}
}

// Whoever deleted the lease has not stopped its holder: the key settles until the lease would have
// ended, but no longer than a lease lasts, if the clock has gone back.
func TestVanishedLeaseIsAwaited(t *testing.T) {
	for name, c := range map[string]struct{ passed, want int64 }{
		"soon": {1000, 59_000}, "late": {59_900, 300}, "clock gone back": {-90_000, 60_000},
	} {
		st := New("k")
		granted(t, &st, request(), noon)
		now := noon.later(c.passed)
		now.Settle = 300
		st.Follow(Shown{}, now)
		candidate := request()
		candidate.Holder = lease.NewHolder("candidate", 1)
		_, err := st.Acquire(candidate, now)
		if settling, _ := errors.AsType[*lease.SettlingError](err); settling == nil || settling.Remaining != milliseconds(c.want) {
			t.Errorf("%s: %v, want that it settles for %d ms", name, err, c.want)
		}
	}
}

// A holder is called whenever an operator asks something of it.
func TestOperatorsCallTheHolder(t *testing.T) {
	st := New("k")
	granted(t, &st, request(), noon)
	for i, ask := range []func(){
		func() { st.HandOver(noon) }, func() { st.Revoke(false, noon) }, func() { st.Revoke(false, noon) }, func() { st.Revoke(true, noon) },
	} {
		before := st.Called
		if ask(); st.Called == before {
			t.Errorf("%d: nobody is called", i)
		}
	}
}

// The host whose success served the tick is told, if that run is kept.
func TestServedOn(t *testing.T) {
	const tick = 1_700_000_000_000
	for name, c := range map[string]struct {
		run  lease.Run
		want string
	}{
		"success":      {lease.Run{Tick: tick, Host: "h"}, "h"},
		"another tick": {lease.Run{Tick: tick + 1, Host: "h"}, ""},
		"failure":      {lease.Run{Tick: tick, Exit: 1, Host: "h"}, ""},
		"vanished":     {lease.Run{Tick: tick, Vanished: true, Host: "h"}, ""},
	} {
		c.run.Token, c.run.Holder = 1, lease.NewHolder("h", 1)
		st := State{ServedTick: tick, Runs: []lease.Run{c.run}}
		if got := st.servedOn(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
