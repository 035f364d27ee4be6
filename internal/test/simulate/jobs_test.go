package simulate

import (
	"slices"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// jobs describes what all hosts run: one successful run per tick, or runs with a minimum hold.
// The fields after the settings are what the checker has seen since the store last lost data.
type jobs struct {
	period  time.Duration
	exact   bool // ticks of a schedule, while the hosts' clocks are wrong
	tries   int
	minHold time.Duration

	anchor         int64   // the first tick of the series, in the store's milliseconds
	grants, starts int     // of the series
	tried          []int64 // the first ticks of series that have had all their grants
	succeeded      []int64
	served         []int64 // acknowledged by the store
	last           *tree
}

// Every other seed has ticks, half of them those of a schedule; the rest has a minimum hold.
// jobs.started checks them, in addition to all other checks.
func TestJobs(t *testing.T) {
	checkSchedules(t, max(1, *simulations/3), newJobs)
}

func TestJobsOfRows(t *testing.T) {
	checkSchedules(t, max(1, *simulations/6), func(t *testing.T, seed uint64) *world { return newJobsWith(t, seed, newTable) })
}

func newJobs(t *testing.T, seed uint64) *world { return newJobsWith(t, seed, newRedis) }

func newJobsWith(t *testing.T, seed uint64, newStore func(*world) backend) *world {
	w := newWorldWith(t, seed, newStore)
	rng := w.rng()
	ttl := w.longestTTL()
	w.rounds = 2
	w.choosy = false
	w.jobs = &jobs{minHold: w.upTo(rng, 3*ttl).Truncate(time.Millisecond)}
	w.pause = ttl / 4
	w.swarm(rng, w.never()...)
	if seed%2 == 0 {
		w.jobs = &jobs{period: 4 * ttl, exact: seed%4 == 0, tries: rng.IntN(4)}
	}
	return w
}

// begin gives a candidate its settings.
func (j *jobs) begin(p *process) {
	p.set.Rejoin = false
	p.set.Request.MinHold = j.minHold
	if j.period > 0 {
		p.set.OncePer, p.set.Request.Period, p.set.Request.Tries = true, j.period, j.tries
		if p.set.Wait != 0 {
			p.set.Wait = p.host.w.upTo(p.rng, j.period*3/4)
		}
	}
	if j.exact {
		wrong := p.host.w.upTo(p.rng, 2*j.period) - j.period
		p.set.Request.Exact, p.set.TickAt = true, j.tickAt
		p.set.WallNow = func() time.Time { return time.UnixMilli(p.host.w.stored(p.host.w.at())).Add(wrong + p.host.wallStep()) }
	}
}

func (j *jobs) tickAt(now int64) lease.Tick {
	at := now - now%j.period.Milliseconds()
	return lease.Tick{At: at, From: at, Until: at + j.period.Milliseconds(), Period: j.period}
}

// round returns how far apart different ticks are at least.
func (j *jobs) round() int64 { return lease.Round(j.period, j.exact) }

// granted is called once for each grant.
func (j *jobs) granted(tick int64) {
	if tick >= j.anchor+j.round() {
		j.anchor, j.grants, j.starts = tick, 0, 0
	}
	if j.grants++; j.grants == j.tries {
		j.tried = append(j.tried, j.anchor)
	}
}

// putBack is called when a holder restores a grant that the store has lost. Its start counts
// for its tick, or for an earlier one that the store still knows.
func (j *jobs) putBack(anchor int64, started bool) {
	before := j.anchor
	if j.granted(anchor); j.anchor != before && started {
		j.starts = 1
	}
}

// started checks a start. The caller holds w.mu.
func (j *jobs) started(w *world, t *tree) {
	holder := t.lease.Holder
	if w.revoked[string(holder)] > 0 || w.forgot > w.grantedAt[string(holder)] { // meanwhile: others may be granted the key
		return
	}
	defer func() { j.last = t }()
	if j.last != nil && j.minHold > 0 {
		apart := time.Duration(w.acquired[string(holder)]-w.acquired[string(j.last.lease.Holder)]) * time.Millisecond
		if apart < j.minHold {
			w.failLocked("%s was granted %s after %s, at least %s were promised", holder, apart, j.last.lease.Holder, j.minHold)
		}
	}
	if j.period == 0 {
		return
	}
	tick := t.lease.Tick
	for _, s := range j.served {
		if tick < s+j.round() {
			w.failLocked("%s runs tick %d, and %d has been served", holder, tick, s)
		}
	}
	if tick <= j.anchor-j.round() {
		w.failLocked("%s runs tick %d after one of %d", holder, tick, j.anchor)
	}
	if j.starts++; j.tries > 0 && j.starts > j.tries {
		w.failLocked("start %d in the tick of %d, at most %d were promised", j.starts, j.anchor, j.tries)
	}
}

// observed records successes, first those that candidates know and then those that the store
// has acknowledged. It also checks the answers that a tick needs no run.
func (j *jobs) observed(p *process, t campaign.Transition) {
	s := t.To
	success := s.Ran && (s.Outcome == candidate.Exited || s.Outcome == candidate.LeftBehind || s.Outcome == candidate.Detached) && s.Exit == candidate.Exit{}
	switch {
	case success && s.Phase == candidate.Releasing:
		j.succeeded = append(j.succeeded, s.Lease.Tick)
	case success && t.Event.Kind == elect.Released:
		j.served = append(j.served, s.Lease.Tick)
	case (t.Event.Denial.Why == lease.Served || t.Event.Denial.Why == lease.GivenUp) && !p.host.w.forgetful:
		tick := s.Tick
		if tick == 0 { // the store chose the tick, not before it was asked
			tick = p.host.w.stored(t.Event.Sent - p.offset)
		}
		if !j.done(tick) {
			p.host.w.failLocked("%s has nothing to do for tick %d, which nobody has served", p, tick)
		}
	}
}

// done reports whether the tick may have been served or given up. The store may have granted
// the next one since.
func (j *jobs) done(tick int64) bool {
	newer := func(s int64) bool { return tick < s+j.round() }
	return slices.ContainsFunc(j.succeeded, newer) || slices.ContainsFunc(j.tried, newer) || tick <= j.anchor-j.round()
}

// forget is called when a lease is gone from the store; ticks: the store may also have lost
// ticks.
func (j *jobs) forget(ticks bool) {
	if j.last = nil; ticks {
		j.anchor, j.grants, j.starts, j.served = 0, 0, 0, nil
	}
}
