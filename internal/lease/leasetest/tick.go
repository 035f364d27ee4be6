package leasetest

import (
	"errors"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// tickTests: at most one successful run per tick.
var tickTests = []test{
	{"every answer has the store's time", answersHaveTime},
	{"a success serves the tick", successServesTick},
	{"done says which tick and why", doneSaysWhy},
	{"done is checked before held", doneBeforeHeld},
	{"a failure does not serve the tick", failureDoesNotServe},
	{"a tick has so many starts", startsPerTick},
	{"a tick has any number of starts without a limit", startsWithoutLimit},
	{"asking again is no start", askingAgainIsNoStart},
	{"a crash counts as a start", crashCounts},
	{"a crashed run is taken over within its tick", crashTakenOver},
	{"a start after which nothing ran is taken back once", startTakenBack},
	{"a start is taken back by the newest holder only", startTakenBackByNewest},
	{"a tick is not given up while the key settles", settlesBeforeGivingUp},
	{"a tick is not run after a newer one", newerTickIsLast},
	{"a late success does not turn the ticks back", ticksOnlyGrow},
	{"without a period ticks are neither read nor written", noPeriodNoTicks},
	{"a tick from the far future silences nothing", farFutureTick},
	{"two exact ticks are the same or not", exactTicks},
	{"an exact tick has its own starts", exactStarts},
	{"an exact tick may be ahead of the store's time, by a day", exactAhead},
	{"a tick is that of the store's time", tickOfStoreTime},
	{"a wrong clock is answered before anything else", clockSaidFirst},
	{"a recent success is enough for other hosts", recentSuccess},
	{"a recent success silences nobody after that", recentSuccessEnds},
	{"without ticks a failure, or a success long ago, is not enough", notEnough},
}

// period is long against all that a test takes, so that only the ticks given
// explicitly decide.
const period = time.Hour

const half = int64(period/time.Millisecond) / 2

func (h Harness) ticking() lease.Request {
	r := h.request()
	r.Period, r.Tries = period, 2
	return r
}

// at is another candidacy of r for the given tick.
func at(r lease.Request, tick int64) lease.Request {
	r = rival(r)
	r.Tick = tick
	return r
}

// The tick of a candidacy is the store's time of its first answer, whatever that
// says, so all answers are on one clock.
func answersHaveTime(t *testing.T, h Harness) {
	s, r := h.Open(t), h.ticking()
	l := h.Grant(t, s, r)
	last := l.Tick
	next := func(answer string, tick int64) {
		t.Helper()
		if most := last + (h.Unit + patience).Milliseconds(); tick < last || tick > most {
			t.Errorf("%s at %d, the answer before was at %d", answer, tick, last)
		}
		last = tick
	}
	next("denied", held(t, s, rival(r), lease.Held).Tick)
	before := last
	h.pass(h.Unit)
	next("denied", held(t, s, rival(r), lease.Held).Tick)
	if last-before < h.Unit.Milliseconds()/2 {
		t.Errorf("denied at %d, and %s later at %d", before, h.Unit, last)
	}
	release(t, s, l, failed)
	knowing := rival(r)
	knowing.Seen.Token, knowing.Seen.TTL = l.Token+1_000_000, h.long()
	next("settling", settles(t, s, knowing).Tick)
	next("granted", h.Grant(t, s, rival(r)).Tick)
}

func successServesTick(t *testing.T, h Harness) {
	s, r := h.Open(t), h.ticking()
	l := h.Grant(t, s, r)
	if l.Tick <= 0 || l.Period != period {
		t.Fatalf("granted %+v", l)
	}
	release(t, s, l, succeeded)
	refused(t, s, rival(r), lease.ErrDone)
	refused(t, s, at(r, l.Tick-half), lease.ErrDone)
	refused(t, s, at(r, l.Tick+half-1), lease.ErrDone)
	if next := h.Grant(t, s, at(r, l.Tick+half)); next.Tick != l.Tick+half {
		t.Errorf("granted tick %d, asked for %d", next.Tick, l.Tick+half)
	}
}

func doneSaysWhy(t *testing.T, h Harness) {
	for _, result := range []lease.Result{succeeded, failed} {
		s, r := h.Open(t), h.ticking()
		r.Tries = 1
		began := time.Now()
		release(t, s, h.Grant(t, s, r), result)
		h.pass(2 * h.Unit)
		served := denies[*lease.DoneError](t, s, rival(r))
		if most := 3*h.Unit + time.Since(began); served.Since < h.Unit || served.Since > most {
			t.Errorf("the tick was %s ago, %s have passed", served.Since, 2*h.Unit)
		}
		if (served.Why == lease.GivenUp) == result.Success {
			t.Errorf("given up: %t after %+v", served.Why == lease.GivenUp, result)
		}
	}
}

func doneBeforeHeld(t *testing.T, h Harness) {
	s, r := h.Open(t), h.ticking()
	release(t, s, h.Grant(t, s, r), succeeded)
	other := rival(r)
	other.Period = 0
	h.Grant(t, s, other)
	refused(t, s, rival(r), lease.ErrDone)
}

func failureDoesNotServe(t *testing.T, h Harness) {
	s, r := h.Open(t), h.ticking()
	l := h.Grant(t, s, r)
	release(t, s, l, failed)
	release(t, s, h.Grant(t, s, at(r, l.Tick)), succeeded)
	refused(t, s, at(r, l.Tick), lease.ErrDone)
}

func startsPerTick(t *testing.T, h Harness) {
	s, r := h.Open(t), h.ticking()
	first := h.Grant(t, s, r)
	release(t, s, first, failed)
	second := h.Grant(t, s, at(r, first.Tick+half-1)) // the same tick, seen by a slower host
	held(t, s, at(r, first.Tick), lease.Held)         // it may still succeed
	release(t, s, second, failed)
	refused(t, s, at(r, first.Tick), lease.ErrDone)
	refused(t, s, at(r, first.Tick+half-1), lease.ErrDone)

	for range 2 { // the next tick has its own starts
		release(t, s, h.Grant(t, s, at(r, first.Tick+half)), failed)
	}
	refused(t, s, at(r, first.Tick+half), lease.ErrDone)
}

func startsWithoutLimit(t *testing.T, h Harness) {
	s, r := h.Open(t), h.ticking()
	r.Tries = 0
	first := h.Grant(t, s, r)
	release(t, s, first, failed)
	for range 5 {
		release(t, s, h.Grant(t, s, at(r, first.Tick)), failed)
	}
}

func askingAgainIsNoStart(t *testing.T, h Harness) {
	s, r := h.Open(t), h.ticking()
	first := h.Grant(t, s, r)
	for range 3 { // its reply got lost
		h.Grant(t, s, r)
	}
	release(t, s, first, failed)
	release(t, s, h.Grant(t, s, at(r, first.Tick)), failed)
	refused(t, s, at(r, first.Tick), lease.ErrDone)
}

func crashCounts(t *testing.T, h Harness) {
	s, r := h.Open(t), h.ticking()
	r.TTL, r.Tries = h.Unit, 1
	l := h.Grant(t, s, r)
	h.pass(2 * h.Unit)
	h.refusedLater(t, s, at(r, l.Tick), lease.ErrDone)
}

func crashTakenOver(t *testing.T, h Harness) {
	s, r := h.Open(t), h.ticking()
	brief := r
	brief.TTL = h.Unit
	crashed := h.Grant(t, s, brief)
	h.pass(2 * h.Unit)
	release(t, s, h.Grant(t, s, at(r, crashed.Tick)), succeeded)
	release(t, s, crashed, failed) // it was only slow, and changes nothing
	refused(t, s, at(r, crashed.Tick), lease.ErrDone)
}

func startTakenBack(t *testing.T, h Harness) {
	s, r := h.Open(t), h.ticking()
	first := h.Grant(t, s, r)
	release(t, s, first, failed)
	idle := h.Grant(t, s, at(r, first.Tick))
	release(t, s, idle, notRun)
	release(t, s, idle, notRun)
	release(t, s, h.Grant(t, s, at(r, first.Tick)), failed)
	refused(t, s, at(r, first.Tick), lease.ErrDone)
}

func startTakenBackByNewest(t *testing.T, h Harness) {
	s, r := h.Open(t), h.ticking()
	brief := r
	brief.TTL = h.Unit
	idle := h.Grant(t, s, brief)
	h.pass(2 * h.Unit)
	second := h.Grant(t, s, at(r, idle.Tick))
	release(t, s, second, failed)
	release(t, s, idle, notRun) // too late: for all that others saw it crashed
	refused(t, s, at(r, idle.Tick), lease.ErrDone)
}

// The holder of a larger token may be alive, and its run a success.
func settlesBeforeGivingUp(t *testing.T, h Harness) {
	s, r := h.Open(t), h.ticking()
	r.Tries = 1
	l := h.Grant(t, s, r)
	release(t, s, l, failed)
	knowing := at(r, l.Tick)
	knowing.Seen.Token, knowing.Seen.TTL = l.Token+1_000_000, 2*h.Unit
	settles(t, s, knowing)
	h.refusedLater(t, s, knowing, lease.ErrDone)
}

func newerTickIsLast(t *testing.T, h Harness) {
	s, r := h.Open(t), h.ticking()
	first := h.Grant(t, s, r)
	release(t, s, first, failed)
	release(t, s, h.Grant(t, s, at(r, first.Tick+half)), failed)
	if served := denies[*lease.DoneError](t, s, at(r, first.Tick)); served.Why != lease.GivenUp {
		t.Errorf("%+v", served)
	}
	release(t, s, h.Grant(t, s, at(r, first.Tick+1)), failed) // a slow clock's, of the same round
}

func ticksOnlyGrow(t *testing.T, h Harness) {
	s, r := h.Open(t), h.ticking()
	brief := r
	brief.TTL = h.Unit
	early := h.Grant(t, s, brief)
	h.pass(2 * h.Unit)
	late := early.Tick + half
	release(t, s, h.Grant(t, s, at(r, late)), succeeded)
	release(t, s, early, succeeded)
	refused(t, s, at(r, late), lease.ErrDone)
	refused(t, s, at(r, early.Tick-100*half), lease.ErrDone) // however old
}

func noPeriodNoTicks(t *testing.T, h Harness) {
	s, r := h.Open(t), h.ticking()
	first := h.Grant(t, s, r)
	release(t, s, first, succeeded)

	for _, tick := range []int64{first.Tick - 1, first.Tick + 2*half} {
		plain := at(r, tick)
		plain.Period, plain.Tries = 0, 1
		release(t, s, h.Grant(t, s, plain), succeeded)
	}
	for range 2 {
		release(t, s, h.Grant(t, s, at(r, first.Tick+half)), failed)
	}
}

// A store's clock that was wrong for a while leaves a tick behind that lies far
// ahead. It must neither count as served nor keep starts for ever.
func farFutureTick(t *testing.T, h Harness) {
	s, r := h.Open(t), h.ticking()
	r.Tries = 1
	first := h.Grant(t, s, r)
	release(t, s, first, notRun)
	release(t, s, h.Grant(t, s, at(r, first.Tick+200*half)), succeeded)

	release(t, s, h.Grant(t, s, at(r, first.Tick)), failed)
	release(t, s, h.Grant(t, s, at(r, first.Tick+half)), succeeded)
	r.Tries = 5 // what refuses is the success
	refused(t, s, at(r, first.Tick+half), lease.ErrDone)
}

// naming is a candidate whose ticks are instants of a schedule. Nobody need know
// when the next one is.
func (h Harness) naming() lease.Request {
	r := h.request()
	r.Exact, r.Tries = true, 2
	return r
}

func exactTicks(t *testing.T, h Harness) {
	for _, period := range []time.Duration{0, period} {
		s, r := h.Open(t), h.naming()
		r.Period = period
		l := h.Grant(t, s, r)
		if l.Tick <= 0 || l.Period != period || !l.Exact {
			t.Fatalf("granted %+v", l)
		}
		release(t, s, l, failed)
		release(t, s, h.Grant(t, s, at(r, l.Tick)), succeeded)
		refused(t, s, at(r, l.Tick), lease.ErrDone)
		refused(t, s, at(r, l.Tick-1), lease.ErrDone)
		release(t, s, h.Grant(t, s, at(r, l.Tick+1)), succeeded)
		refused(t, s, at(r, l.Tick+1), lease.ErrDone)
		plain := at(r, l.Tick+half-1) // by --once-per 1h
		plain.Exact, plain.Period = false, time.Hour
		refused(t, s, plain, lease.ErrDone)
	}
}

func exactStarts(t *testing.T, h Harness) {
	s, r := h.Open(t), h.naming()
	r.Period = period
	first := h.Grant(t, s, r)
	release(t, s, first, notRun) // no start
	for range 2 {
		release(t, s, h.Grant(t, s, at(r, first.Tick)), failed)
	}
	refused(t, s, at(r, first.Tick), lease.ErrDone)
	release(t, s, h.Grant(t, s, at(r, first.Tick+1)), failed)
	r.Tries = 5
	if answer := denies[*lease.DoneError](t, s, at(r, first.Tick)); answer.Why != lease.GivenUp { // not after a newer one
		t.Errorf("%+v", answer)
	}
	release(t, s, h.Grant(t, s, at(r, first.Tick+1)), failed)
}

// The name may be a host's time, and that host's clock wrong.
func exactAhead(t *testing.T, h Harness) {
	const hour, day = int64(time.Hour / time.Millisecond), 24 * int64(time.Hour/time.Millisecond)
	s, r := h.Open(t), h.naming()
	r.Tries = 5
	first := h.Grant(t, s, r)
	release(t, s, first, notRun)
	release(t, s, h.Grant(t, s, at(r, first.Tick+day-hour)), succeeded)
	refused(t, s, at(r, first.Tick+day-hour), lease.ErrDone)
	refused(t, s, at(r, first.Tick), lease.ErrDone)
	release(t, s, h.Grant(t, s, at(r, first.Tick+2*day)), succeeded)
	release(t, s, h.Grant(t, s, at(r, first.Tick)), succeeded)
	refused(t, s, at(r, first.Tick), lease.ErrDone)
}

// during is another candidacy of r for a tick that is right from then until then by
// the store's clock.
func during(r lease.Request, tick, from, until int64) lease.Request {
	r = at(r, tick)
	r.TickFrom, r.TickUntil = from, until
	return r
}

func tickOfStoreTime(t *testing.T, h Harness) {
	const hour = int64(time.Hour / time.Millisecond)
	s, r := h.Open(t), h.naming()
	r.Tries = 1
	probe := h.Grant(t, s, r)
	release(t, s, probe, notRun)
	now := probe.Tick
	for _, wrong := range []lease.Request{
		during(r, now, now-hour, now), // the first instant that is not its own
		during(r, now, now-2*hour, now-hour),
		during(r, now+hour, now+hour, now+2*hour),
	} {
		answer := denies[*lease.ClockError](t, s, wrong)
		if most := now + (h.Unit + patience).Milliseconds(); answer.Tick < now || answer.Tick > most {
			t.Errorf("the store's time is %d, answered at %d", answer.Tick, now)
		}
	}
	right := during(r, now+1, now-hour, now+hour) // nothing of the above was a start
	l := h.Grant(t, s, right)
	if l.Tick != now+1 {
		t.Errorf("granted tick %d, asked for %d", l.Tick, now+1)
	}
	right.TickUntil = now // its answer was lost, and the time is over
	if again := h.Grant(t, s, right); again.Token != l.Token || again.Tick != l.Tick {
		t.Errorf("granted %+v, and then %+v", l, again)
	}
	release(t, s, l, succeeded)
	refused(t, s, during(r, now+1, now-hour, now+hour), lease.ErrDone)
}

// Of a tick that is not the candidate's it need not know whether it is served.
func clockSaidFirst(t *testing.T, h Harness) {
	s, r := h.Open(t), h.naming()
	first := h.Grant(t, s, r)
	release(t, s, first, succeeded)
	denies[*lease.ClockError](t, s, during(r, first.Tick-1000, first.Tick-1000, first.Tick))
	h.Grant(t, s, at(r, first.Tick+1))
	denies[*lease.ClockError](t, s, during(r, first.Tick-1000, first.Tick-1000, first.Tick))
}

// bare is a request of the same line on every host, without ticks.
func (h Harness) bare(key, host string) lease.Request {
	return lease.Request{Key: key, Holder: lease.NewHolder(host, 1), TTL: h.long(), Recent: 30 * time.Second}
}

func recentSuccess(t *testing.T, h Harness) {
	s, key := h.Open(t), h.request().Key
	first := h.Grant(t, s, h.bare(key, "web-1"))
	held(t, s, h.bare(key, "web-2"), lease.Held)
	release(t, s, first, succeeded)
	if done := denies[*lease.DoneError](t, s, h.bare(key, "web-2")); done.Host != "web-1" || done.Why == lease.GivenUp {
		t.Errorf("%+v", done)
	}
	again := h.Grant(t, s, h.bare(key, "web-1")) // the same host may go on at once
	if _, err := s.Renew(bounded(t), again); err != nil {
		t.Error(err)
	}
	release(t, s, again, failed)
	denies[*lease.DoneError](t, s, h.bare(key, "web-2")) // the failure takes nothing back
	plain := h.bare(key, "web-2")
	plain.Recent = 0 // by hand, or with --wait
	release(t, s, h.Grant(t, s, plain), succeeded)
	if status, err := operate(t, h).Inspect(bounded(t), key); err != nil || status.Tick != 0 || status.ServedTick != 0 || status.Runs[0].Tick != 0 {
		t.Errorf("%+v, %v: nothing here has a tick", status, err)
	}
}

// The candidates' first answers are compared, not the end of the run.
func recentSuccessEnds(t *testing.T, h Harness) {
	s, key := h.Open(t), h.request().Key
	first := h.Grant(t, s, h.bare(key, "web-1"))
	release(t, s, first, succeeded)
	next := h.bare(key, "web-2")
	for next.Tick = first.Tick + next.Recent.Milliseconds() - 1; ; next.Tick++ {
		_, err := s.Acquire(bounded(t), next)
		if err == nil && next.Tick == first.Tick+next.Recent.Milliseconds() {
			return
		}
		if _, done := errors.AsType[*lease.DoneError](err); !done || next.Tick > first.Tick+next.Recent.Milliseconds() {
			t.Fatalf("%d ms after the other: %v", next.Tick-first.Tick, err)
		}
	}
}

func notEnough(t *testing.T, h Harness) {
	s, key := h.Open(t), h.request().Key
	release(t, s, h.Grant(t, s, h.bare(key, "web-1")), failed)
	second := h.Grant(t, s, h.bare(key, "web-2"))
	second.Tick -= time.Minute.Milliseconds() // it asked a minute ago
	release(t, s, second, succeeded)
	h.Grant(t, s, h.bare(key, "web-1"))
}
