package rules

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

const year = int64(365 * 24 * time.Hour / time.Millisecond)

// noon is a time of a boot.
var noon = Instant{Boot: "b1", Up: 5_000_000, Wall: 1_800_000_000_000, Here: 1_800_000_000_000}

func (i Instant) later(ms int64) Instant { i.Up += ms; i.Wall += ms; i.Here += ms; return i }

func request() lease.Request {
	return lease.Request{Key: "k", Holder: lease.NewHolder("host", 1), TTL: time.Minute}
}

func granted(t *testing.T, st *State, r lease.Request, now Instant) lease.Lease {
	t.Helper()
	l, err := st.Acquire(r, now)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return l
}

func TestWallClockMovesNoLease(t *testing.T) {
	for name, step := range map[string]int64{"forward": year, "back": -year} {
		t.Run(name, func(t *testing.T) {
			st := &State{}
			l := granted(t, st, request(), noon)
			now := noon.later(1000)
			now.Wall += step
			if _, err := st.Acquire(request(), now); !errors.As(err, new(*lease.HeldError)) {
				t.Errorf("acquire: %v, want a denial", err)
			}
			if _, err := st.Renew(l, now); err != nil {
				t.Errorf("renew: %v", err)
			}
			now = now.later(60_000)
			if next := granted(t, st, request(), now); next.Token <= l.Token {
				t.Errorf("token %d after %d", next.Token, l.Token)
			}
		})
	}
}

func TestRebootEndsLeasesAndKeepsTheRest(t *testing.T) {
	st := &State{}
	ticking := func(tick int64) lease.Request {
		r := request()
		r.Period, r.Tries, r.Tick = time.Hour, 2, tick
		return r
	}
	first := granted(t, st, ticking(noon.Wall-30*60_000), noon)
	must.Succeed(t, st.Release(first, lease.Result{Ran: true, Success: true}, noon))
	r := ticking(noon.Wall)
	r.MinHold = time.Hour
	second := granted(t, st, r, noon)

	for name, up := range map[string]int64{"soon": 10, "when the lease has ended": noon.Up + time.Hour.Milliseconds()} {
		t.Run(name, func(t *testing.T) {
			st := &State{Token: st.Token, Grant: st.Grant, ServedTick: st.ServedTick, SeriesTick: st.SeriesTick, Starts: st.Starts, Released: st.Released}
			now := Instant{Boot: "b2", Up: up, Wall: noon.Wall + 60_000}
			if _, err := st.Acquire(ticking(noon.Wall-10*60_000), now); !errors.Is(err, lease.ErrDone) {
				t.Errorf("acquire for the served tick: %v", err)
			}
			third := granted(t, st, ticking(noon.Wall), now)
			if third.Token <= second.Token {
				t.Errorf("token %d after %d", third.Token, second.Token)
			}
			if st.Starts != 2 {
				t.Errorf("%d starts counted, want 2", st.Starts)
			}
		})
	}
}

func TestFree(t *testing.T) {
	const ttl = 60_000 // of request
	leading := func(minHold time.Duration) (*State, lease.Lease) {
		st, r := &State{}, request()
		r.MinHold = minHold
		return st, granted(t, st, r, noon)
	}
	released := func(minHold time.Duration, result lease.Result) *State {
		st, l := leading(minHold)
		must.Succeed(t, st.Release(l, result, noon))
		return st
	}
	held, _ := leading(0)
	holding, _ := leading(time.Hour)
	settling := &State{Token: 5}
	knowing := request()
	knowing.Seen.Token, knowing.Seen.TTL = 6, time.Minute
	if _, err := settling.Acquire(knowing, noon); !errors.As(err, new(*lease.SettlingError)) {
		t.Fatalf("acquire: %v", err)
	}
	ran := lease.Result{Ran: true}
	for _, c := range []struct {
		name string
		st   *State
		now  Instant
		want bool
	}{
		{"new", &State{}, noon, true},
		{"held", held, noon.later(ttl - 1), false},
		{"expired", held, noon.later(ttl), true},
		{"held in an earlier boot", held, Instant{Boot: "b2", Up: noon.Up - 1, Wall: noon.Wall}, true},
		{"held in a container with another boot id", held, Instant{Boot: "b2", Up: noon.Up + ttl - 1, Wall: noon.Wall}, false},
		{"held for long in such a container", holding, Instant{Boot: "b2", Up: noon.Up, Wall: noon.Wall}, false},
		{"cooled down before a reboot", released(time.Hour, ran), Instant{Boot: "b2", Up: noon.Up + ttl, Wall: noon.Wall + time.Hour.Milliseconds()}, true},
		{"cools down in such a container", released(time.Hour, ran), Instant{Boot: "b2", Up: noon.Up + ttl, Wall: noon.Wall}, false},
		{"released", released(0, ran), noon, true},
		{"cools down", released(time.Hour, ran), noon.later(ttl), false},
		{"cooled down", released(time.Hour, ran), noon.later(time.Hour.Milliseconds()), true},
		{"released, nothing ran", released(time.Hour, lease.Result{}), noon, true},
		{"settles", settling, noon, false},
	} {
		if got := c.st.Free(c.now); got != c.want {
			t.Errorf("%s: free is %t", c.name, got)
		}
	}
}

func TestHistory(t *testing.T) {
	st, now := &State{}, noon
	var last lease.Lease
	for i := range remembered + 5 {
		now = now.later(1000)
		last = granted(t, st, request(), now)
		now = now.later(100)
		for range 2 { // a repeated release records nothing twice
			must.Succeed(t, st.Release(last, lease.Result{Ran: true, Exit: i}, now))
		}
	}
	if len(st.Runs) != remembered || len(st.Released) != remembered {
		t.Fatalf("%d runs and %d holders remembered", len(st.Runs), len(st.Released))
	}
	want := lease.Run{Token: last.Token, Tick: last.Tick, Start: now.Wall - 100, End: now.Wall, Exit: remembered + 4, Host: "host", Holder: last.Holder}
	if st.Runs[0] != want {
		t.Errorf("newest run %+v, want %+v", st.Runs[0], want)
	}
	if !slices.IsSortedFunc(st.Runs, func(a, b lease.Run) int { return int(b.Token - a.Token) }) {
		t.Errorf("not newest first: %+v", st.Runs)
	}

	idle := granted(t, st, request(), now)
	must.Succeed(t, st.Release(idle, lease.Result{}, now))
	if st.Runs[0] != want {
		t.Errorf("filed although nothing ran: %+v", st.Runs[0])
	}
}

// The size of the status is bounded, whatever the state has.
func TestStatusIsBounded(t *testing.T) {
	huge := strings.Repeat("\xff", 1<<20)
	st, r := New("k"), request()
	r.Meta = huge
	l := granted(t, &st, r, noon)
	for range 50 {
		st.Runs = append(st.Runs, lease.Run{Token: 7, Host: huge, Holder: lease.Holder(huge)}, lease.Run{Token: l.Token, Host: "host", Holder: r.Holder})
	}
	s := st.Status(noon)
	if len(s.Meta) != lease.MaxMeta || len(s.Runs) != lease.MaxRuns || s.Runs[0].Holder != r.Holder {
		t.Errorf("%d bytes of meta, %d runs", len(s.Meta), len(s.Runs))
	}
}

// A reboot ends a lease, and the requests to its holder.
func TestOperateAfterAReboot(t *testing.T) {
	st := New("k")
	l := granted(t, &st, request(), noon)
	next := Instant{Boot: "b2", Up: 10, Wall: noon.Wall + 60_000}
	st.HandOver(next)
	st.Revoke(false, next)
	if s := st.Status(next); s.HandOver || s.Why != "" || s.Holder != l.Holder || s.Token != l.Token || s.Remaining != 0 {
		t.Errorf("status %+v", s)
	}
	st.Revoke(true, next)
	if s := st.Status(next); s.Holder != "" || s.Token <= l.Token || len(s.Runs) != 1 || !s.Runs[0].Vanished || s.Runs[0].Token != l.Token {
		t.Errorf("status %+v", s)
	}
}

// A state may be forgotten after its last change plus the longest of 35 days, three periods,
// two TTLs and the minimum hold.
func TestIdle(t *testing.T) {
	const day = 24 * time.Hour
	plain := request()
	quarterly, long, held := plain, plain, plain
	quarterly.Period, long.TTL, held.MinHold = 90*day, 60*day, 50*day
	for _, c := range []struct {
		name     string
		requests []lease.Request
		days     int64
	}{
		{"plain", []lease.Request{plain}, 35},
		{"quarterly ticks", []lease.Request{quarterly}, 270},
		{"a long TTL", []lease.Request{long}, 120},
		{"a long minimum hold", []lease.Request{held}, 50},
		{"a plain run after one with ticks", []lease.Request{quarterly, plain}, 270},
	} {
		t.Run(c.name, func(t *testing.T) {
			st, now := New("k"), noon
			for _, r := range c.requests {
				r.Holder = lease.NewHolder("host", 1)
				l := granted(t, &st, r, now)
				now = now.later(1000)
				must.Succeed(t, st.Release(l, lease.Result{Ran: true, Success: true}, now))
			}
			st.Changed = now.Wall
			if at := now.later(c.days * day.Milliseconds()); st.Idle(at) {
				t.Errorf("forgotten within %d days", c.days)
			} else if !st.Idle(at.later(1)) {
				t.Errorf("not forgotten after %d days", c.days)
			}
		})
	}
	t.Run("a success after a loss of memory", func(t *testing.T) {
		before, st := New("k"), New("k")
		l := granted(t, &before, quarterly, noon)
		must.Succeed(t, st.Release(l, lease.Result{Ran: true, Success: true}, noon))
		st.Changed = noon.Wall
		if st.Idle(noon.later((269 * day).Milliseconds())) {
			t.Error("forgotten within three periods")
		}
	})
	t.Run("a lease that lives", func(t *testing.T) {
		st := New("k")
		granted(t, &st, plain, noon)
		wrong := noon
		wrong.Wall += year
		if st.Idle(wrong) {
			t.Error("forgotten during a lease, whose clock is not the wall's")
		}
		set := noon.later(year)
		set.Settle = 300
		if st.Idle(set) {
			t.Error("forgotten during a lease, by a clock that was set")
		}
	})
}

// A server that comes back with an older state has a lease that ended before the holder with
// the larger token was granted the key. That holder restores its lease, unless the other
// holder has shown that it lives.
func TestOlderStateGivesWay(t *testing.T) {
	before, after := noon, noon.later(1000)
	before.Server, after.Server = "s1", "s2"
	st := New("k")
	older := granted(t, &st, request(), before)
	saved := st
	must.Succeed(t, st.Release(older, lease.Result{}, before))
	newer := granted(t, &st, request(), before)
	for name, test := range map[string]struct {
		renewed, cooling bool
		by               lease.Lease
		want             error
	}{
		"the newer holder takes it back":               {by: newer},
		"also during the older one's minimum hold":     {by: newer, cooling: true},
		"the older holder lives":                       {by: newer, renewed: true, want: lease.ErrLost},
		"the newer one's token is the smaller one now": {by: lease.Lease{Key: "k", Holder: newer.Holder, Token: older.Token, TTL: newer.TTL}, want: lease.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			st := saved
			grant := *saved.Grant
			st.Grant = &grant
			if grant.Cooldown = test.cooling; test.renewed {
				_, err := st.Renew(older, after)
				must.Succeed(t, err)
			}
			back, err := st.Renew(test.by, after)
			if !errors.Is(err, test.want) || err == nil && (!back.Reasserted || st.Grant.Holder != newer.Holder || st.Token != newer.Token) {
				t.Fatalf("%+v, %v, want %v", back, err, test.want)
			}
			if _, err := st.Renew(older, after); test.want == nil && !errors.Is(err, lease.ErrLost) {
				t.Errorf("the older one: %v, want it lost", err)
			}
		})
	}
}

// A settling that nobody finished in time does not count: the holder was called before what
// has happened since.
func TestSettlingGrowsOld(t *testing.T) {
	const hour = 3_600_000
	now := noon
	now.Settle = 300
	st := New("k")
	now.Serving = hour // so the key is certainly new
	granted(t, &st, request(), now)
	for _, later := range []int64{61_000, hour} { // the holder has died, or the clock was set
		now = now.later(later)
		var settling *lease.SettlingError
		before := st.Called
		if _, err := st.Acquire(request(), now); !errors.As(err, &settling) || settling.Remaining != 300*time.Millisecond || st.Called == before {
			t.Errorf("after %d ms more: %v, want the holder called, and it to settle for 300ms", later, err)
		}
	}
}
