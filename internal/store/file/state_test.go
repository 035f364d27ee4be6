package file

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

const year = int64(365 * 24 * time.Hour / time.Millisecond)

// noon is some instant of some boot.
var noon = instant{boot: "b1", up: 5_000_000, wall: 1_800_000_000_000}

func (i instant) later(ms int64) instant { i.up += ms; i.wall += ms; return i }

func granted(t *testing.T, st *state, r lease.Request, now instant) lease.Lease {
	t.Helper()
	l, err := st.acquire(r, now)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return l
}

func TestWallClockMovesNoLease(t *testing.T) {
	for name, step := range map[string]int64{"forward": year, "back": -year} {
		t.Run(name, func(t *testing.T) {
			st := &state{}
			l := granted(t, st, request("k"), noon)
			now := noon.later(1000)
			now.wall += step
			if _, err := st.acquire(request("k"), now); !errors.As(err, new(*lease.HeldError)) {
				t.Errorf("acquire: %v, want a denial", err)
			}
			if _, err := st.renew(l, now); err != nil {
				t.Errorf("renew: %v", err)
			}
			now = now.later(60_000)
			if next := granted(t, st, request("k"), now); next.Token <= l.Token {
				t.Errorf("token %d after %d", next.Token, l.Token)
			}
		})
	}
}

func TestRebootEndsLeasesAndKeepsTheRest(t *testing.T) {
	st := &state{}
	ticking := func(tick int64) lease.Request {
		r := request("k")
		r.Period, r.Tries, r.Tick = time.Hour, 2, tick
		return r
	}
	first := granted(t, st, ticking(noon.wall-30*60_000), noon)
	must(t, st.release(first, lease.Result{Ran: true, Success: true}, noon))
	r := ticking(noon.wall)
	r.MinHold = time.Hour
	second := granted(t, st, r, noon)

	for name, up := range map[string]int64{"soon": 10, "at a time the old boot has seen": noon.up + 10} {
		t.Run(name, func(t *testing.T) {
			st := &state{Token: st.Token, Grant: st.Grant, Served: st.Served, Anchor: st.Anchor, Starts: st.Starts, Released: st.Released}
			now := instant{boot: "b2", up: up, wall: noon.wall + 60_000}
			if _, err := st.acquire(ticking(noon.wall-10*60_000), now); !errors.Is(err, lease.ErrDone) {
				t.Errorf("acquire for the served tick: %v", err)
			}
			third := granted(t, st, ticking(noon.wall), now)
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
	leading := func(minHold time.Duration) (*state, lease.Lease) {
		st, r := &state{}, request("k")
		r.MinHold = minHold
		return st, granted(t, st, r, noon)
	}
	released := func(minHold time.Duration, result lease.Result) *state {
		st, l := leading(minHold)
		must(t, st.release(l, result, noon))
		return st
	}
	held, _ := leading(0)
	settling := &state{Token: 5}
	knowing := request("k")
	knowing.SeenToken, knowing.SeenTTL = 6, time.Minute
	if _, err := settling.acquire(knowing, noon); !errors.As(err, new(*lease.SettlingError)) {
		t.Fatalf("acquire: %v", err)
	}
	ran := lease.Result{Ran: true}
	for _, c := range []struct {
		name string
		st   *state
		now  instant
		want bool
	}{
		{"new", &state{}, noon, true},
		{"held", held, noon.later(ttl - 1), false},
		{"expired", held, noon.later(ttl), true},
		{"held in another boot", held, instant{boot: "b2", up: noon.up, wall: noon.wall}, true},
		{"released", released(0, ran), noon, true},
		{"cools down", released(time.Hour, ran), noon.later(ttl), false},
		{"cooled down", released(time.Hour, ran), noon.later(time.Hour.Milliseconds()), true},
		{"released, nothing ran", released(time.Hour, lease.Result{}), noon, true},
		{"settles", settling, noon, false},
	} {
		if got := c.st.free(c.now); got != c.want {
			t.Errorf("%s: free is %t", c.name, got)
		}
	}
}

func TestDenialTellsTimes(t *testing.T) {
	st := &state{}
	l := granted(t, st, request("k"), noon)
	now := noon.later(40_000)
	if _, err := st.renew(l, now); err != nil {
		t.Fatal(err)
	}
	now = now.later(2_000)
	now.wall += year // no step of the wall clock moves a duration
	_, err := st.acquire(request("k"), now)
	var held *lease.HeldError
	if !errors.As(err, &held) || held.Since != 42*time.Second || held.Tick != now.wall {
		t.Errorf("acquire: %#v", err)
	}
}

// A start is taken back from the round that it was counted in, also when the
// wall clock was far ahead then.
func TestStartIsTakenBackFromItsRound(t *testing.T) {
	half := time.Hour.Milliseconds() / 2
	for _, c := range []struct {
		name  string
		shift int64
		now   instant
		want  int
	}{
		{"its tick", 0, noon, 0},
		{"the end of its round", half - 1, noon, 0},
		{"the next round", half, noon, 1},
		{"the clock was set back", 0, instant{boot: noon.boot, up: noon.up, wall: noon.wall - year}, 0},
	} {
		st, r := &state{}, request("k")
		r.Period = time.Hour
		l := granted(t, st, r, noon)
		l.Tick += c.shift
		must(t, st.release(l, lease.Result{}, c.now))
		if st.Starts != c.want {
			t.Errorf("%s: %d starts, want %d", c.name, st.Starts, c.want)
		}
	}
}

// Redis' scripts divide without rounding.
func TestHalfOfAnOddPeriod(t *testing.T) {
	if !sameRound(100, 102, 5*time.Millisecond) || sameRound(100, 103, 5*time.Millisecond) {
		t.Error("2 ms are less than half of 5 ms, and 3 ms are more")
	}
}

func TestTokensStartAtTheWallClock(t *testing.T) {
	if l := granted(t, &state{}, request("k"), noon); l.Token != noon.wall {
		t.Errorf("token %d at %d", l.Token, noon.wall)
	}
}

func TestHistory(t *testing.T) {
	st, now := &state{}, noon
	var last lease.Lease
	for i := range remembered + 5 {
		now = now.later(1000)
		last = granted(t, st, request("k"), now)
		now = now.later(100)
		for range 2 { // a repeated release files nothing twice
			must(t, st.release(last, lease.Result{Ran: true, Exit: i}, now))
		}
	}
	if len(st.Runs) != remembered || len(st.Released) != remembered {
		t.Fatalf("%d runs and %d holders remembered", len(st.Runs), len(st.Released))
	}
	want := run{Token: last.Token, Tick: last.Tick, Start: now.wall - 100, End: now.wall, Exit: remembered + 4, Host: "host", Holder: last.Holder}
	if st.Runs[0] != want {
		t.Errorf("newest run %+v, want %+v", st.Runs[0], want)
	}
	if !slices.IsSortedFunc(st.Runs, func(a, b run) int { return int(b.Token - a.Token) }) {
		t.Errorf("not newest first: %+v", st.Runs)
	}

	idle := granted(t, st, request("k"), now)
	must(t, st.release(idle, lease.Result{}, now))
	if st.Runs[0] != want {
		t.Errorf("filed although nothing ran: %+v", st.Runs[0])
	}
}

func TestVanishedRunIsFiledUntilItsHolderSpeaks(t *testing.T) {
	st := &state{}
	lost := granted(t, st, request("k"), noon)
	now := noon.later(2 * 60_000)
	next := granted(t, st, request("k"), now)
	want := run{Token: lost.Token, Tick: lost.Tick, Start: noon.wall, Host: "host", Holder: lost.Holder, Vanished: true}
	if len(st.Runs) != 1 || st.Runs[0] != want {
		t.Fatalf("runs %+v, want %+v", st.Runs, want)
	}
	must(t, st.release(next, lease.Result{Ran: true}, now.later(50)))
	if err := st.release(lost, lease.Result{Ran: true, Exit: 76}, now.later(100)); err != nil {
		t.Errorf("release of the lost lease: %v", err)
	}
	want = run{Token: lost.Token, Tick: lost.Tick, Start: noon.wall, End: now.wall + 100, Exit: 76, Host: "host", Holder: lost.Holder}
	if len(st.Runs) != 2 || st.Runs[1] != want {
		t.Errorf("runs %+v, want %+v second", st.Runs, want)
	}
}

func TestReleaseEndsACandidacyThatTheFileForgot(t *testing.T) {
	st := &state{}
	r := request("k")
	l := granted(t, st, r, noon)
	*st = state{}
	must(t, st.release(l, lease.Result{Ran: true}, noon))
	if _, err := st.renew(l, noon); !errors.Is(err, lease.ErrLost) {
		t.Errorf("renew: %v, want ErrLost", err)
	}
	if _, err := st.acquire(r, noon); !errors.Is(err, lease.ErrReleased) {
		t.Errorf("acquire: %v, want ErrReleased", err)
	}
}
