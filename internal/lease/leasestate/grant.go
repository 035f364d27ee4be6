package leasestate

import (
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

func (g *Grant) lives(now Instant) bool { return g.left(now) > 0 }

// left is for how long, in ms, the key stays taken if nobody renews the grant.
func (g *Grant) left(now Instant) int64 {
	switch {
	case g == nil || g.Boot != now.Boot:
		return 0
	case now.Apart == 0 || g.Cooldown:
		return g.Expires - now.Up
	}
	// The caller has seen a renewal no earlier than its holder asked for it.
	return max(g.rest(now), min(g.Expires+now.Apart-now.Up, g.TTL-now.Unrenewed))
}

// leads says whether g is a lease that its holder has and has not given up.
func (g *Grant) leads(now Instant) bool { return g.lives(now) && g.isLease() }

// isLease says whether g is one that leaderrun granted, and that neither its holder nor
// an operator has ended.
func (g *Grant) isLease() bool { return g != nil && !g.Cooldown && !g.Revoked && !g.Foreign }

func (g *Grant) extend(now Instant) { g.Expires = now.Up + max(g.TTL, g.rest(now)) }

// rest is how much of the minimum hold is left: never more than all of it, if the
// clock has gone back.
func (g *Grant) rest(now Instant) int64 {
	return max(0, min(g.MinHold-now.Up, g.MinHold-g.Acquired))
}

// grant makes g the newest grant and counts it as a start of its tick.
func (st *State) grant(token int64, g *Grant, period time.Duration, exact bool, now Instant) {
	st.Token, st.Grant, st.Settling, st.Server = token, g, nil, now.Server
	g.extend(now)
	st.remember(g.TTL, period.Milliseconds(), g.MinHold-g.Acquired)
	if period > 0 {
		st.Period = period.Milliseconds()
	}
	switch round := lease.Round(period, exact); {
	case covers(st.Anchor, g.Tick, round, now.Wall+lease.Reach(period, exact)):
		st.Starts++
	case round > 0:
		st.Anchor, st.Starts = g.Tick, 1
	}
}

// lease is the living grant as its holder gets it.
func (st *State) lease(period time.Duration, exact bool) lease.Lease {
	g := st.Grant
	return lease.Lease{
		Key: st.Key, Holder: g.Holder, Token: st.Token, TTL: milliseconds(g.TTL),
		AcquiredAt: g.Acquired, MinHoldUntil: g.MinHold,
		Tick: g.Tick, Period: period, Exact: exact, Meta: g.Meta, HandOver: g.HandOver,
	}
}

// denial says who has the key, and for how long at most: a clock that has gone
// back must not make that longer than any lease lasts.
func (st *State) denial(now Instant) *lease.HeldError {
	g := st.Grant
	g.Expires = min(g.Expires, now.Up+max(g.TTL, g.rest(now))+now.Apart)
	return &lease.HeldError{Value: string(g.Holder), Why: g.why(), Token: st.Token,
		Remaining: milliseconds(g.left(now)), TTL: milliseconds(g.TTL),
		Since: milliseconds(max(0, now.Up-g.Acquired)), Expires: g.Expires, Tick: now.Wall}
}

// why says in which way a grant that lives takes the key.
func (g *Grant) why() lease.HeldReason {
	switch {
	case g.Cooldown:
		return lease.HeldCooldown
	case g.Revoked:
		return lease.HeldRevoked
	case g.Foreign:
		return lease.HeldForeign
	}
	return lease.HeldLeader
}
