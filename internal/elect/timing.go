package elect

import "time"

// Timing is every duration that the promise rests on, derived from the TTL.
// All instants are on one clock that goes on while the machine sleeps; an
// instant derived from a request counts from before the request was sent,
// since the store may have acted at any time after that.
//
//	sent ──────────── renew ─────────── stop-by ──── grace ──── kill-by ─ K ─ valid-until ─ M ─ expiry
//	 0                TTL/3              ≈0.71                   ≈0.957         ≈0.99            TTL
//
// Two renewal attempts fit between the renew interval and stop-by, so that one
// lost message costs nobody a job:
//
//	Renew + 2·(Attempt + Pause) + Grace + KillMargin + Margin ≤ 0.932·TTL   for every TTL ≥ 1 s
type Timing struct {
	TTL time.Duration
	// Renew is the time between two renewals, at most TTL/3.
	Renew time.Duration
	// Attempt bounds one request, FirstAttempt the first, which has to dial.
	Attempt, FirstAttempt time.Duration
	// Pause lies between two attempts that were not answered; see DoubtPause for
	// renewals.
	Pause time.Duration
	// Margin covers clocks that run at different rates (1 % is twenty times
	// what NTP slews), KillMargin the time that killing a tree takes: tails of
	// 470 ms were measured under a load of 40 on two cores.
	Margin, KillMargin time.Duration
	// Grace is the time from the first signal to SIGKILL when the lease runs
	// out: min(kill-after, TTL/4).
	Grace time.Duration
}

// MinTTL is the shortest TTL for which the inequality of Timing leaves room
// for real machines.
const MinTTL = time.Second

// NewTiming derives the timing. The caller has checked that ttl ≥ MinTTL,
// 0 < renew ≤ ttl/3 and killAfter ≥ 0.
func NewTiming(ttl, renew, killAfter time.Duration) Timing {
	return Timing{
		TTL:          ttl,
		Renew:        renew,
		Attempt:      ttl / 15,
		FirstAttempt: ttl / 6,
		Pause:        ttl / 60,
		Margin:       ttl/100 + 5*time.Millisecond,
		KillMargin:   min(max(500*time.Millisecond, ttl/30), ttl/6),
		Grace:        min(killAfter, ttl/4),
	}
}

// ValidUntil is when a lease whose request left at sent may belong to somebody
// else, on the fastest store clock that Margin allows.
func (t Timing) ValidUntil(sent time.Duration) time.Duration { return sent + t.TTL - t.Margin }

// KillBy is when SIGKILL is sent at the latest.
func (t Timing) KillBy(sent time.Duration) time.Duration { return t.ValidUntil(sent) - t.KillMargin }

// StopBy is when the first signal is sent at the latest.
func (t Timing) StopBy(sent time.Duration) time.Duration { return t.KillBy(sent) - t.Grace }

// DoubtPause lies between two renewals that were not answered.
func (t Timing) DoubtPause() time.Duration { return min(t.Pause, doubtPause) }

// Outage is the longest absence of a store that never stops a command: from just before a
// renewal until the last attempt that comes in time.
func (t Timing) Outage() time.Duration { return t.StopBy(0) - t.Renew - t.Attempt - t.Pause }
