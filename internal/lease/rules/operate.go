package rules

import (
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// longestPeriod is ten years, in ms: sums of it stay in range.
const longestPeriod = 10 * 365 * 86_400_000

// Free reports whether a waiting candidate may be granted the key. While it settles, the
// candidate knows how long to wait.
func (st *State) Free(now Instant) bool {
	return !st.Grant.lives(now) && st.Settling == nil && st.pause(now) == lease.Pause{}
}

// pause returns the current pause, or zero.
func (st *State) pause(now Instant) lease.Pause {
	if st.Paused == nil {
		return lease.Pause{}
	}
	return st.Paused.Going(now.Wall)
}

// HandOver implements [lease.Admin].
func (st *State) HandOver(now Instant) {
	if st.Grant.leads(now) {
		st.Grant.HandOver = true
		st.call(now)
	}
}

// Revoke implements [lease.Admin].
func (st *State) Revoke(atOnce bool, now Instant) {
	g := st.Grant
	if !atOnce && (!g.lives(now) || g.Revoked || g.Foreign) {
		if g.lives(now) && g.Revoked {
			st.call(now)
		}
		return
	}
	st.vanish()
	if g != nil {
		st.retire(g.Holder)
	}
	st.Token = max(st.Token+1, now.Wall)
	st.Settling = nil
	st.call(now)
	if atOnce || g.Cooldown {
		st.Grant = nil
		return
	}
	g.Revoked, g.HandOver = true, false
}

// Pause implements [lease.Admin]. It does nothing if the clock is before 1970.
func (st *State) Pause(d time.Duration, by, reason string, now Instant) {
	p := lease.Pause{Since: now.Wall, Until: now.Wall + min(d, lease.MaxPause).Milliseconds(), By: by, Reason: reason}.Going(now.Wall)
	if p != (lease.Pause{}) {
		st.Paused = &p
		st.remember(0, 0, p.Until-p.Since)
	}
}

// Resume implements [lease.Admin].
func (st *State) Resume() { st.Paused = nil }

// Forget implements [lease.Admin]. It keeps the released holders, and whatever makes a
// grant wait.
func (st *State) Forget(token bool, now Instant) {
	if !st.Status(now).AtRest() {
		return
	}
	kept := New(st.Key)
	kept.Released, kept.Settling, kept.Server = st.Released, st.Settling, st.Server
	if !token {
		kept.Token = st.Token
	}
	*st = kept
}

// Status implements [lease.Admin].
func (st *State) Status(now Instant) lease.Status {
	s := lease.Status{Key: st.Key, Token: st.Token, Now: now.Wall, ServedTick: st.ServedTick, Starts: st.Starts, Tries: st.Tries, Period: milliseconds(min(st.Period, longestPeriod)), Runs: lease.ValidRuns(st.Runs), Pause: st.pause(now), Candidates: lease.ValidCandidates(st.Candidates)}
	g := st.Grant
	if g == nil || (g.Cooldown || g.Revoked) && !g.lives(now) {
		return s
	}
	s.TTL, s.Since, s.MinHoldUntil, s.Tick = milliseconds(g.TTL), g.AcquiredWall, g.AcquiredWall+g.MinHoldUntil-g.Acquired, g.Tick
	if g.Recent > 0 {
		s.Tick = 0
	}
	s.HandOver, s.Meta = g.HandOver && g.leads(now), lease.Cut(g.Meta, lease.MaxMeta)
	if !g.Cooldown && !g.Foreign {
		s.Holder = g.Holder
	}
	switch {
	case g.Foreign && g.lives(now) && g.TTL == endless.Milliseconds():
		s.Value, s.Why, s.TTL = string(g.Holder), g.why(), 0
	case g.lives(now):
		s.Value, s.Why, s.Remaining = string(g.Holder), g.why(), milliseconds(max(1, min(g.left(now), g.Expires-now.Up)))
	}
	return s
}
