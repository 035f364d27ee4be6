package leasetest

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// tickTests: at most one successful run per tick.
var tickTests = []test{
	{"a success serves the tick", successServesTick},
	{"done is checked before held", doneBeforeHeld},
	{"a failure does not serve the tick", failureDoesNotServe},
	{"a tick has so many starts", startsPerTick},
	{"a crash counts as a start", crashCounts},
	{"a start after which nothing ran is taken back once", startTakenBack},
	{"a late success does not turn the ticks back", ticksOnlyGrow},
	{"without a period ticks are neither read nor written", noPeriodNoTicks},
	{"a tick from the far future silences nothing", farFutureTick},
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
	held(t, s, at(r, first.Tick), lease.HeldLeader)   // it may still succeed
	release(t, s, second, failed)
	refused(t, s, at(r, first.Tick), lease.ErrDone)
	refused(t, s, at(r, first.Tick+half-1), lease.ErrDone)

	for range 2 { // the next tick has its own starts
		release(t, s, h.Grant(t, s, at(r, first.Tick+half)), failed)
	}
	refused(t, s, at(r, first.Tick+half), lease.ErrDone)
}

func crashCounts(t *testing.T, h Harness) {
	s, r := h.Open(t), h.ticking()
	r.TTL, r.Tries = h.Unit, 1
	l := h.Grant(t, s, r)
	h.pass(2 * h.Unit)
	refused(t, s, at(r, l.Tick), lease.ErrDone)
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
}

func noPeriodNoTicks(t *testing.T, h Harness) {
	s, r := h.Open(t), h.ticking()
	first := h.Grant(t, s, r)
	release(t, s, first, succeeded)

	plain := at(r, first.Tick+2*half)
	plain.Period, plain.Tries = 0, 0
	release(t, s, h.Grant(t, s, plain), succeeded)
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
