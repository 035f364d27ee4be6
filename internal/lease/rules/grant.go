package rules

import (
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

func (g *Grant) lives(now Instant) bool { return g.left(now) > 0 }

// left returns how long, in ms, the key stays taken if nobody renews the grant.
func (g *Grant) left(now Instant) int64 {
	switch {
	case g == nil || g.Vanished || g.isEarlierBoot(now):
		return 0
	case now.Apart == 0 || g.Cooldown:
		return g.Expires - now.Up
	}
	// The caller saw a renewal after its holder asked for it, never before.
	return max(g.rest(now), min(g.Expires+now.Apart-now.Up, g.TTL-now.Unrenewed))
}

// isEarlierBoot reports whether g ended with an earlier boot. Another boot id does not show that
// alone: containers of one kernel may have ids of their own (systemd-nspawn, LXC). But the time
// since the boot, which they share, has then passed the last renewal. If it has after a reboot,
// too, g counts until its end; a cooldown, under which nothing runs, until that by the wall clock.
func (g *Grant) isEarlierBoot(now Instant) bool {
	renewed := g.Expires - g.TTL
	switch {
	case g.Boot == now.Boot:
		return false
	case g.Cooldown && now.Wall >= g.AcquiredWall+g.MinHoldUntil-g.Acquired:
		return true
	case g.Expires == g.MinHoldUntil:
		renewed = g.Acquired // or later
	}
	return now.Up < renewed
}

// leads reports whether g is a living lease.
func (g *Grant) leads(now Instant) bool { return g.lives(now) && g.isLease() }

// isLease reports whether g was granted by leaderrun and ended neither by its holder nor by
// an operator.
func (g *Grant) isLease() bool { return g != nil && !g.Cooldown && !g.Revoked && !g.Foreign }

// extend lets the newest grant last for a TTL from now.
func (st *State) extend(now Instant) {
	g := st.Grant
	g.Expires, g.Asked, g.Vanished = now.Up+max(g.TTL, g.rest(now)), now.Here, false
	st.Renewed, st.Settling, st.Server = nextStamp(st.Renewed, now), nil, now.Server
}

// rest returns the rest of the minimum hold: never more than its length, if the clock has
// gone back.
func (g *Grant) rest(now Instant) int64 {
	return max(0, min(g.MinHoldUntil-now.Up, g.MinHoldUntil-g.Acquired))
}

// grant makes g the newest grant and counts it as a start of its tick.
func (st *State) grant(token int64, g *Grant, period time.Duration, exact bool, now Instant) {
	st.Token, st.Grant = token, g
	st.extend(now)
	st.remember(g.TTL, period.Milliseconds(), g.MinHoldUntil-g.Acquired)
	if period > 0 {
		st.Period = period.Milliseconds()
	}
	switch round := lease.Round(period, exact); {
	case covers(st.SeriesTick, g.Tick, round, now.Wall+lease.Reach(period, exact)):
		st.Starts++
	case round > 0:
		st.SeriesTick, st.Starts = g.Tick, 1
	}
}

// lease returns the living grant in the form for its holder.
func (st *State) lease(period time.Duration, exact bool) lease.Lease {
	g := st.Grant
	return lease.Lease{
		Key: st.Key, Holder: g.Holder, Token: st.Token, TTL: milliseconds(g.TTL),
		AcquiredAt: g.Acquired, MinHoldUntil: g.MinHoldUntil,
		Tick: g.Tick, Period: period, Exact: exact, Recent: milliseconds(g.Recent), Meta: g.Meta, HandOver: g.HandOver,
	}
}

// denial says who has the key, and for how long at most: never longer than a lease lasts,
// even if the clock has gone back.
func (st *State) denial(now Instant) *lease.HeldError {
	g := st.Grant
	g.Expires = min(g.Expires, now.Up+max(g.TTL, g.rest(now))+now.Apart)
	return &lease.HeldError{Condition: lease.Condition{Value: string(g.Holder), Why: g.why(), Token: st.Token,
		Remaining: milliseconds(g.left(now)), TTL: milliseconds(g.TTL),
		Since: milliseconds(max(0, now.Up-g.Acquired)), Expires: g.Expires, Tick: now.Wall, Pause: st.pause(now)}}
}

// why says how a living grant takes the key.
func (g *Grant) why() lease.How {
	switch {
	case g.Cooldown:
		return lease.Cooldown
	case g.Revoked:
		return lease.Revoked
	case g.Foreign:
		return lease.Foreign
	}
	return lease.Held
}
