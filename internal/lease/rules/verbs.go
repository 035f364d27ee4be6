package rules

import (
	"cmp"
	"errors"
	"slices"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// early is the earliest plausible time of a clock, in ms: the clock of a host without a
// hardware clock starts in 1970.
const early = 978_307_200_000

// Acquire implements [lease.Store].
func (st *State) Acquire(r lease.Request, now Instant) (lease.Lease, error) {
	g := st.Grant
	if g.isLease() && g.Holder == r.Holder && g.Boot == now.Boot { // asked again
		st.extend(now)
		return st.lease(r.Period, r.Exact), nil
	}
	if slices.Contains(st.Released, r.Holder) {
		return lease.Lease{}, lease.ErrReleased
	}
	if now.Wall < early {
		return lease.Lease{}, &lease.StoreError{Op: "acquire", Err: errors.New("the store's clock shows a time before 2001"), Hint: "set the clock of the store's host"}
	}
	if r.TickUntil != 0 && (now.Wall < r.TickFrom || now.Wall >= r.TickUntil) {
		return lease.Lease{}, &lease.ClockError{Condition: lease.Condition{Why: lease.ClockDiffers, Tick: now.Wall}}
	}
	tick, round, reach := r.Tick, lease.Round(r.Period, r.Exact), lease.Reach(r.Period, r.Exact)
	recent := r.Recent.Milliseconds()
	if round > 0 || recent > 0 {
		tick = cmp.Or(tick, now.Wall)
	}
	if covers(st.ServedTick, tick, round, now.Wall+reach) {
		return lease.Lease{}, &lease.DoneError{Condition: lease.Condition{Why: lease.Served, Since: since(st.ServedTick, now), Host: st.servedOn()}}
	}
	if s := st.Success; s != nil && s.Host != r.Holder.Host() && covers(s.Tick, tick, recent, now.Wall+recent) {
		return lease.Lease{}, &lease.DoneError{Condition: lease.Condition{Why: lease.Served, Since: since(s.Tick, now), Host: s.Host}}
	}
	if g.lives(now) {
		denial := st.denial(now)
		if r.Waits && g.Offered && st.pause(now) == (lease.Pause{}) && g.leads(now) {
			g.HandOver = true // its holder, which offered it, learns of it by its next renewal
		}
		// It ends soon and was not renewed for long: the holder is called now, so that
		// the key has settled when the lease ends.
		if now.Settle > 0 && g.isLease() && g.left(now) <= now.Settle+100 {
			st.settle(now.Settle, now)
		}
		return lease.Lease{}, denial
	}
	if p := st.pause(now); p != (lease.Pause{}) {
		return lease.Lease{}, &lease.PausedError{Condition: lease.Condition{Why: lease.Paused, Pause: p, Remaining: p.Left(now.Wall), Tick: now.Wall}}
	}
	if need, why := st.doubt(r, now); need > 0 {
		if left := st.settle(need, now); left > 0 {
			return lease.Lease{}, &lease.SettlingError{Condition: lease.Condition{Why: lease.Settling, Remaining: milliseconds(left), Settle: why, Tick: now.Wall}}
		}
	}
	// A tick is not run after a newer one, whatever the outcome of that.
	triedOut := r.Tries > 0 && st.Starts >= r.Tries
	if covers(st.SeriesTick, tick, round, now.Wall+reach) && (triedOut || !sameRound(tick, st.SeriesTick, round)) {
		return lease.Lease{}, &lease.DoneError{Condition: lease.Condition{Why: lease.GivenUp, Since: since(st.SeriesTick, now)}}
	}
	if g != nil && g.Holder != r.Holder {
		st.vanish()
	}
	st.grant(max(st.Token+1, r.Seen.Token+1, now.Wall), &Grant{
		Holder: r.Holder, TTL: r.TTL.Milliseconds(), Boot: now.Boot,
		Acquired: now.Up, MinHoldUntil: now.Up + r.MinHold.Milliseconds(),
		AcquiredWall: now.Wall, Tick: tick, Recent: recent, Meta: r.Meta,
	}, r.Period, r.Exact, now)
	if round > 0 {
		st.Tries = r.Tries
	}
	st.Note(r, now)
	return st.lease(r.Period, r.Exact), nil
}

// Renew implements [lease.Store]. It restores a lease that is over by the store's clock,
// unless it was released or another grant followed: the holder renews only while the lease
// is valid on its own clock. A late renewal from a holder that has died makes others wait
// for a TTL and does no other harm.
func (st *State) Renew(l lease.Lease, now Instant) (lease.Lease, error) {
	g := st.Grant
	switch {
	case g != nil && g.Holder == l.Holder && g.Revoked && g.lives(now):
		return lease.Lease{}, lease.ErrRevoked
	case st.owns(l) && !g.Cooldown && !g.Revoked && g.Boot == now.Boot:
		l.Reasserted = !g.lives(now)
		st.extend(now)
		g.Offered = l.Offered
	// A state that is older than the lease lost data. What it says about this holder does
	// not matter.
	case g.lives(now) && g.Holder != l.Holder && !st.remembered(now) || st.Token >= l.Token || slices.Contains(st.Released, l.Holder):
		return lease.Lease{}, lease.ErrLost
	default:
		st.grant(l.Token, &Grant{
			Holder: l.Holder, TTL: l.TTL.Milliseconds(), Boot: now.Boot,
			Acquired: l.AcquiredAt, MinHoldUntil: l.MinHoldUntil,
			AcquiredWall: now.Wall - (now.Up - l.AcquiredAt), Tick: l.Tick, Recent: l.Recent.Milliseconds(), Offered: l.Offered, Meta: l.Meta,
		}, l.Period, l.Exact, now)
		l.Reasserted = true
	}
	renewed := st.lease(l.Period, l.Exact)
	renewed.Reasserted, renewed.Offered = l.Reasserted, l.Offered
	return renewed, nil
}

// remembered reports whether the grant is older than this server's start: nobody was
// granted the key or renewed it since. If it has a smaller token than a living holder's
// lease, it came back with older data: it ended before that holder was granted the key.
func (st *State) remembered(now Instant) bool {
	return st.Server != "" && now.Server != "" && st.Server != now.Server
}

// Release implements [lease.Store]. It may be called again after a lost reply, and after a
// loss. What has been done is not done twice.
func (st *State) Release(l lease.Lease, r lease.Result, now Instant) error {
	st.retire(l.Holder)
	own := st.owns(l)
	if own && !st.Grant.Cooldown {
		st.Settling = nil // its holder has answered
		st.end(l, r, now)
	}
	if r.Success && lease.Round(l.Period, l.Exact) > 0 && (l.Tick > st.ServedTick || st.ServedTick > now.Wall+lease.Reach(l.Period, l.Exact)) {
		st.ServedTick = l.Tick
		st.remember(l.TTL.Milliseconds(), l.Period.Milliseconds(), 0)
	}
	if s := st.Success; r.Success && l.Recent > 0 && (s == nil || l.Tick > s.Tick || s.Tick > now.Wall+l.Recent.Milliseconds()) {
		st.Success = &Success{Host: l.Holder.Host(), Tick: l.Tick}
	}
	if r.Ran {
		if l.Recent > 0 {
			l.Tick = 0 // it is none of a schedule
		}
		st.note(lease.Run{Token: l.Token, Tick: l.Tick, Start: now.Wall - (now.Up - l.AcquiredAt), End: now.Wall,
			Exit: r.Exit, Host: l.Holder.Host(), Holder: l.Holder})
	}
	if !own && st.Grant.lives(now) {
		return lease.ErrLost
	}
	return nil
}

// end turns the own grant into a cooldown, or removes it.
func (st *State) end(l lease.Lease, r lease.Result, now Instant) {
	if r.Ran && st.Grant.rest(now) > 0 && !st.Grant.Revoked {
		st.Grant.Cooldown, st.Grant.Expires = true, st.Grant.MinHoldUntil
		return
	}
	st.Grant = nil
	if round := lease.Round(l.Period, l.Exact); !r.Ran && round > 0 && sameRound(st.SeriesTick, l.Tick, round) && st.Starts > 0 {
		st.Starts--
	}
}

// owns reports whether the newest grant is l. Revoking a grant changes its token.
func (st *State) owns(l lease.Lease) bool {
	return st.Grant != nil && st.Grant.Holder == l.Holder && (st.Token == l.Token || st.Grant.Revoked)
}
