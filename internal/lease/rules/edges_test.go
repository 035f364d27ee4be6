package rules

import (
	"errors"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// States that these rules never produce are refused, and no others.
func TestCheck(t *testing.T) {
	const most = 1 << 53
	grant := Grant{Holder: lease.NewHolder("host", 1), TTL: 1, Boot: "b"}
	pause := lease.Pause{Since: 1, Until: 2}
	good := State{Version: Version, Key: "k", Token: 1, Keep: 1, Grant: &grant}
	for name, c := range map[string]struct {
		change func(*State, *Grant)
		good   bool
	}{
		"what there is":              {func(*State, *Grant) {}, true},
		"no grant":                   {func(st *State, _ *Grant) { st.Grant, st.Token, st.Keep = nil, 0, 0 }, true},
		"the largest numbers":        {func(st *State, _ *Grant) { st.Token, st.Keep, st.Period = most, most, most }, true},
		"a pause":                    {func(st *State, _ *Grant) { st.Paused = &pause }, true},
		"an older form":              {func(st *State, _ *Grant) { st.Version = 0 }, false},
		"a newer form":               {func(st *State, _ *Grant) { st.Version++ }, false},
		"another key":                {func(st *State, _ *Grant) { st.Key = "x" }, false},
		"a negative token":           {func(st *State, _ *Grant) { st.Token = -1 }, false},
		"a token out of range":       {func(st *State, _ *Grant) { st.Token = most + 1 }, false},
		"kept for less than no time": {func(st *State, _ *Grant) { st.Keep = -1 }, false},
		"kept for ever":              {func(st *State, _ *Grant) { st.Keep = most + 1 }, false},
		"a negative period":          {func(st *State, _ *Grant) { st.Period = -1 }, false},
		"a period out of range":      {func(st *State, _ *Grant) { st.Period = most + 1 }, false},
		"negative starts":            {func(st *State, _ *Grant) { st.Starts = -1 }, false},
		"a pause of no time":         {func(st *State, _ *Grant) { st.Paused = &lease.Pause{} }, false},
		"a grant to nobody":          {func(_ *State, g *Grant) { g.Holder = "" }, false},
		"a grant of no boot":         {func(_ *State, g *Grant) { g.Boot = "" }, false},
		"a grant for no time":        {func(_ *State, g *Grant) { g.TTL = 0 }, false},
		"a grant without a token":    {func(st *State, _ *Grant) { st.Token = 0 }, false},
	} {
		st, g := good, grant
		st.Grant = &g
		c.change(&st, &g)
		if err := st.Check("k"); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
	newer, other := good, good
	newer.Version, other.Version = Version+1, 0
	if got := Hint(newer.Check("k"), "x"); got == "x" {
		t.Error("who has an old leaderrun is not told to update it")
	}
	if got := Hint(other.Check("k"), "x"); got != "x" {
		t.Errorf("the hint is %q", got)
	}
}

// settled returns noon, on a server that has lost nothing for long.
func settled() Instant {
	now := noon
	now.Settle, now.Server, now.Serving = 300, "s", 1<<40
	return now
}

// How long a key settles before it is granted, and why.
func TestSettles(t *testing.T) {
	const (
		ttl    = 60_000 // of request
		fresh  = lease.SettleFresh
		over   = lease.SettleExpired
		begun  = lease.SettleRestarted
		rolled = lease.SettleRollback
	)
	serving := func(ms int64) Instant { now := settled(); now.Serving = ms; return now }
	fileStore := settled().later(ttl)
	fileStore.Settle = 0
	restarted := settled()
	restarted.Server = "another"
	seen := func(token, expires int64, left time.Duration) lease.Request {
		r := request()
		r.Seen = lease.Seen{Token: token, TTL: time.Minute, Expires: expires, Left: left}
		return r
	}
	lostSoon := seen(noon.Wall+1, 0, 0)
	lostSoon.Seen.TTL = time.Millisecond
	brief := request()
	brief.TTL = time.Second
	grant := func() *State { st := New("k"); _, _ = st.Acquire(request(), settled()); return &st }
	at, ends := settled().later(ttl), noon.Up+ttl
	// on is at for a candidate on whose host it is so long after the grant, which it has watched.
	on := func(after, watched int64) Instant {
		now := at
		now.Here, now.Unrenewed = noon.Here+after, watched
		return now
	}
	settling := func() *State {
		st := grant()
		st.Settling = &Settling{Boot: at.Boot, Since: at.Up - 200, Due: at.Up + 100, Server: at.Server}
		return st
	}
	since := func(now Instant) Instant { now.Settled = 200; return now }
	none := func() *State { st := New("k"); return &st }
	for name, c := range map[string]struct {
		st   *State
		r    lease.Request
		now  Instant
		want int64 // 0: it is granted
		why  lease.SettleReason
	}{
		"a new key of a server that has just started": {none(), request(), serving(0), 300, fresh},
		"two TTLs after the start":                    {none(), request(), serving(2 * ttl), 300, fresh},
		"more than two TTLs after the start":          {none(), request(), serving(2*ttl + 1), 0, ""},
		"a short TTL, 90 s after the start":           {none(), brief, serving(90_000), 300, fresh},
		"a short TTL, more than 90 s after the start": {none(), brief, serving(90_001), 0, ""},
		"a new key that another server has forgotten": {&State{Server: "s"}, request(), Instant{Boot: "b1", Up: 1, Wall: noon.Wall, Settle: 300, Server: "another"}, 300, fresh},
		"a key of another server":                     {&State{Token: 5, Server: "s"}, request(), restarted, 300, begun},
		"a lease that is over":                        {grant(), request(), at, 300, over},
		"by the own clock it is not":                  {grant(), seen(noon.Wall, ends, 10*time.Second), at, 10_000, over},
		"not even by a little":                        {grant(), seen(noon.Wall, ends, 10*time.Second+1), at, 10_001, over},
		"nor for longer than the TTL":                 {grant(), seen(noon.Wall, ends, time.Hour), at, ttl, over},
		"it was renewed since":                        {grant(), seen(noon.Wall, ends-1, 10*time.Second), at, 300, over},
		"another one was seen":                        {grant(), seen(noon.Wall-1, ends, 10*time.Second), at, 300, over},
		"the kernel's clock needs no other one":       {grant(), seen(noon.Wall, ends, 10*time.Second), fileStore, 0, ""},
		"a millisecond of a lease that has been lost": {none(), lostSoon, fileStore, 1, rolled},
		"by the hosts' clocks it is not over":         {grant(), request(), on(20_000, 0), 40_000, over},
		"by the hosts' clocks it is over":             {grant(), request(), on(ttl-300, 0), 300, over},
		"the hosts' clocks differ by far":             {grant(), request(), on(-1<<40, 0), ttl, over},
		"they say so, and it settles already":         {settling(), request(), since(on(20_000, 0)), 40_000, over},
		"by the own clock, and it settles already":    {settling(), seen(noon.Wall, ends, 10*time.Second), since(at), 10_000, over},
		"it was watched, and they differ":             {grant(), request(), on(0, ttl-300), 300, over},
		"a newer lease than the store knows was seen": {grant(), seen(noon.Wall+1, 0, 0), at, ttl, rolled},
	} {
		var settling *lease.SettlingError
		_, err := c.st.Acquire(c.r, c.now)
		if c.want == 0 && err != nil || c.want != 0 && (!errors.As(err, &settling) || settling.Remaining != milliseconds(c.want) || settling.Settle != c.why) {
			t.Errorf("%s: %v, want %d ms (%s)", name, err, c.want, c.why)
		}
	}
}

// A settling counts if it began on this server, in this boot, not long ago, and not by a wrong
// clock.
func TestSettlingGoesOn(t *testing.T) {
	const (
		day = 86_400_000
		up  = 5_000_000 // of noon
	)
	for name, c := range map[string]struct {
		under Settling
		want  int64
	}{
		"under way":         {Settling{"b1", up - 100, up + 200, "s"}, 200},
		"of another boot":   {Settling{"b2", up - 100, up + 200, "s"}, 300},
		"of another server": {Settling{"b1", up - 100, up + 200, "x"}, 300},
		"begins now":        {Settling{"b1", up, up + 5000, "s"}, 4900},
		"begins later":      {Settling{"b1", up + 1, up + 5000, "s"}, 300},
		"lasts for a day":   {Settling{"b1", up - 100, up + day, "s"}, day},
		"lasts for longer":  {Settling{"b1", up - 100, up + day + 1, "s"}, 300},
		"over for a minute": {Settling{"b1", up - 60_300, up - 60_000, "s"}, 200},
		"over for longer":   {Settling{"b1", up - 60_301, up - 60_001, "s"}, 300},
	} {
		st := State{Token: 5, Server: "s", Settling: &c.under, Grant: &Grant{Holder: lease.NewHolder("host", 1), TTL: 1, Boot: "b1"}}
		var settling *lease.SettlingError
		now := settled()
		now.Settled = 100 // by the candidate's own clock
		_, err := st.Acquire(request(), now)
		if c.want == 0 && err != nil || c.want != 0 && (!errors.As(err, &settling) || settling.Remaining != milliseconds(c.want)) {
			t.Errorf("%s: %v, want %d ms", name, err, c.want)
		}
	}
}

// The holder is called 400 ms before the end, if that is useful, and its renewal ends the
// settling.
func TestHolderIsCalledAheadOfTheEnd(t *testing.T) {
	const ttl = 60_000
	st, r := New("k"), request()
	granted(t, &st, r, settled())
	for _, c := range []struct {
		left   int64
		settle int64
		want   bool
	}{{401, 300, false}, {100, 0, false}, {102, 1, false}, {101, 1, true}, {400, 300, true}} {
		now := settled().later(ttl - c.left)
		now.Settle = c.settle
		if _, err := st.Acquire(request(), now); !errors.As(err, new(*lease.HeldError)) || (st.Settling != nil) != c.want {
			t.Errorf("%d ms before the end: %v, settling %v", c.left, err, st.Settling)
		}
		if c.settle < 300 {
			st.Settling = nil
		}
	}
	granted(t, &st, r, settled().later(ttl-200)) // it asks again, and dies
	var settling *lease.SettlingError
	if _, err := st.Acquire(request(), settled().later(2*ttl-200)); !errors.As(err, &settling) || settling.Remaining != 300*time.Millisecond {
		t.Errorf("%v, want the holder to be called again", err)
	}
	st.Revoke(true, settled().later(2*ttl-200))
	if !st.Free(settled().later(2*ttl - 200)) {
		t.Error("a key that was freed at once still settles")
	}
}

// A release before the end shows that the holder lives, and ends the settling.
func TestReleaseEndsTheSettling(t *testing.T) {
	st, now := New("k"), settled().later(59_800)
	l := granted(t, &st, request(), settled())
	if _, err := st.Acquire(request(), now); err == nil || st.Settling == nil {
		t.Fatalf("%v, and the holder was not called", err)
	}
	must.Succeed(t, st.Release(l, lease.Result{Ran: true}, now))
	if !st.Free(now) {
		t.Error("a key that was released still settles")
	}
}

// Tokens grow even if the clock stands still, or is behind them.
func TestTokensOfTheSameMillisecond(t *testing.T) {
	st := New("k")
	first := granted(t, &st, request(), noon)
	must.Succeed(t, st.Release(first, lease.Result{}, noon))
	second := granted(t, &st, request(), noon)
	st.Revoke(true, noon)
	if second.Token != first.Token+1 || st.Token != second.Token+1 {
		t.Errorf("%d, then %d, then %d", first.Token, second.Token, st.Token)
	}
	r := request()
	r.Seen.Token = noon.Wall + 7000 // of a lease that ended long ago
	if l := granted(t, &st, r, noon); l.Token != r.Seen.Token+1 {
		t.Errorf("%d after %d", l.Token, r.Seen.Token)
	}
}

func TestAnswersOfTheSameMillisecond(t *testing.T) {
	st, r := New("k"), from("web-1")
	r.TickFrom, r.TickUntil = noon.Wall, noon.Wall+1
	l := granted(t, &st, r, noon)
	var held *lease.HeldError
	if _, err := st.Acquire(from("web-2"), noon); !errors.As(err, &held) || held.Since != 0 {
		t.Errorf("%#v", err)
	} else if st.Note(from("web-2"), noon); st.Unnoted(from("web-2"), err, noon) {
		t.Error("noted twice")
	}
	must.Succeed(t, st.Release(l, lease.Result{Ran: true, Success: true}, noon))
	var done *lease.DoneError
	if _, err := st.Acquire(from("web-2"), noon); !errors.As(err, &done) || done.Since != 0 {
		t.Errorf("%#v", err)
	}
}

// A tick may be ahead of the clock by its reach.
func TestTickAhead(t *testing.T) {
	if !covers(100, 90, 1, 100) || covers(101, 90, 1, 100) {
		t.Error("a tick counts up to its reach, and not beyond")
	}
}

// Grants without ticks keep the period and the tries of grants with ticks.
func TestPeriodStays(t *testing.T) {
	st := New("k")
	must.Succeed(t, st.Release(granted(t, &st, from("web-1"), noon), lease.Result{Ran: true}, noon))
	granted(t, &st, request(), noon)
	if s := st.Status(noon); s.Period != 24*time.Hour {
		t.Errorf("a period of %s", s.Period)
	}
}

// A run that vanished is only forgotten by a clock that cannot be set. A pause is kept until
// it ends.
func TestIdleAfterAll(t *testing.T) {
	const day = 86_400_000
	released, vanished, paused := New("k"), New("k"), New("k")
	must.Succeed(t, released.Release(granted(t, &released, request(), settled()), lease.Result{Ran: true}, settled()))
	granted(t, &vanished, request(), noon)
	paused.Pause(60*day*time.Millisecond, "ann", "", noon)
	released.Changed, vanished.Changed, paused.Changed = noon.Wall, noon.Wall, noon.Wall
	if !released.Idle(settled().later(36 * day)) {
		t.Error("a released key is kept for ever")
	}
	unsure := noon.later(36 * day)
	unsure.Settle = 1
	if vanished.Idle(unsure) {
		t.Error("a key whose holder may live is forgotten")
	}
	if !vanished.Idle(noon.later(36 * day)) {
		t.Error("a key whose holder has vanished is kept for ever")
	}
	if paused.Idle(noon.later(60*day)) || !paused.Idle(noon.later(60*day+1)) {
		t.Error("a pause of 60 days is kept for 60 days")
	}
}

// A clock before 2001 is not believed.
func TestEarlyClock(t *testing.T) {
	st, r := New("k"), request()
	at := Instant{Boot: "b", Wall: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()}
	if _, err := st.Acquire(r, at.later(-1)); !errors.As(err, new(*lease.StoreError)) {
		t.Errorf("before 2001: %v", err)
	}
	granted(t, &st, r, at)
}

// Only the holder of a revoked lease learns that it was revoked.
func TestRenewalOfWhatIsRevoked(t *testing.T) {
	st := New("k")
	l := granted(t, &st, request(), noon)
	st.Revoke(false, noon)
	if _, err := st.Renew(l, noon); !errors.Is(err, lease.ErrRevoked) {
		t.Errorf("its holder: %v", err)
	}
	l.Holder = lease.NewHolder("host", 2)
	if _, err := st.Renew(l, noon); !errors.Is(err, lease.ErrLost) || errors.Is(err, lease.ErrRevoked) {
		t.Errorf("another one: %v", err)
	}
}

// A restored lease is shown with the time of its grant.
func TestGrantOfALostState(t *testing.T) {
	before, after := New("k"), New("k")
	_, err := after.Renew(granted(t, &before, request(), noon), noon.later(5000))
	must.Succeed(t, err)
	if s := after.Status(noon.later(5000)); s.Since != noon.Wall {
		t.Errorf("granted at %d, want %d", s.Since, noon.Wall)
	}
}

// A release serves its own tick and keeps its own minimum hold.
func TestReleaseAtTheEdge(t *testing.T) {
	ahead, r := New("k"), from("web-1")
	r.Period = time.Hour
	l := granted(t, &ahead, r, noon)
	ahead.ServedTick = noon.Wall + 3_600_000 // by a host whose clock was ahead, which is allowed
	must.Succeed(t, ahead.Release(l, lease.Result{Ran: true, Success: true}, noon))
	if ahead.ServedTick != noon.Wall+3_600_000 {
		t.Errorf("served %d", ahead.ServedTick)
	}

	held := request()
	held.MinHold = 10 * time.Second
	cooling := New("k")
	must.Succeed(t, cooling.Release(granted(t, &cooling, held, noon), lease.Result{Ran: true}, noon.later(9_999)))
	if _, err := cooling.Acquire(request(), noon.later(9_999)); !errors.As(err, new(*lease.HeldError)) {
		t.Errorf("a millisecond before the end of the minimum hold: %v", err)
	}

	counted, plain := New("k"), request()
	must.Succeed(t, counted.Release(granted(t, &counted, from("web-1"), noon), lease.Result{Ran: true}, noon))
	plain.Tick = noon.Wall - 1
	must.Succeed(t, counted.Release(granted(t, &counted, plain, noon), lease.Result{}, noon))
	if counted.Starts != 1 {
		t.Errorf("%d starts, want 1: a run without ticks took it back", counted.Starts)
	}
}
