package leasestate

import (
	"cmp"
	"errors"
	"slices"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// early is the first time, in ms, that a clock can show which is right: that of a
// host without one begins in 1970.
const early = 978_307_200_000

// Acquire is [lease.Store]'s.
func (st *State) Acquire(r lease.Request, now Instant) (lease.Lease, error) {
	g := st.Grant
	if g.isLease() && g.Holder == r.Holder && g.Boot == now.Boot { // asked again
		g.extend(now)
		st.Settling = nil
		return st.lease(r.Period, r.Exact), nil
	}
	if slices.Contains(st.Released, r.Holder) {
		return lease.Lease{}, lease.ErrReleased
	}
	if now.Wall < early {
		return lease.Lease{}, &lease.StoreError{Op: "acquire", Err: errors.New("the store's clock shows a time before 2001"), Hint: "set the clock of the store's host"}
	}
	if r.TickUntil != 0 && (now.Wall < r.TickFrom || now.Wall >= r.TickUntil) {
		return lease.Lease{}, &lease.ClockError{Tick: now.Wall}
	}
	tick, round, reach := r.Tick, lease.Round(r.Period, r.Exact), lease.Reach(r.Period, r.Exact)
	if round > 0 {
		tick = cmp.Or(tick, now.Wall)
	}
	if covers(st.Served, tick, round, now.Wall+reach) {
		return lease.Lease{}, &lease.DoneError{Ago: since(st.Served, now)}
	}
	if g.lives(now) {
		denial := st.denial(now)
		if r.Waits && g.Offered && st.pause(now) == (lease.Pause{}) {
			st.HandOver(now)
		}
		// It ends soon, and nobody has renewed it for long: the holder is called now, so
		// that a standby need not settle then.
		if now.Settle > 0 && g.isLease() && g.left(now) <= now.Settle+100 {
			st.settle(now.Settle, now)
		}
		return lease.Lease{}, denial
	}
	if p := st.pause(now); p != (lease.Pause{}) {
		return lease.Lease{}, &lease.PausedError{Pause: p, Remaining: p.Left(now.Wall), Tick: now.Wall}
	}
	if need, why := st.doubt(r, now); need > 0 {
		if left := st.settle(need, now); left > 0 {
			return lease.Lease{}, &lease.SettlingError{Remaining: milliseconds(left), Why: why, Tick: now.Wall}
		}
	}
	// A tick is not run after a newer one, whatever became of that.
	triedOut := r.Tries > 0 && st.Starts >= r.Tries
	if covers(st.Anchor, tick, round, now.Wall+reach) && (triedOut || !sameRound(tick, st.Anchor, round)) {
		return lease.Lease{}, &lease.DoneError{Ago: since(st.Anchor, now), GivenUp: true}
	}
	if g != nil && g.Holder != r.Holder {
		st.vanish()
	}
	st.grant(max(st.Token+1, r.Seen.Token+1, now.Wall), &Grant{
		Holder: r.Holder, TTL: r.TTL.Milliseconds(), Boot: now.Boot,
		Acquired: now.Up, MinHold: now.Up + r.MinHold.Milliseconds(),
		Started: now.Wall, Tick: tick, Meta: r.Meta,
	}, r.Period, r.Exact, now)
	if round > 0 {
		st.Tries = r.Tries
	}
	st.Note(r, now)
	return st.lease(r.Period, r.Exact), nil
}

// Renew is [lease.Store]'s. A lease that is over by the store's clock comes back
// as long as it was neither released nor followed by another grant: the holder
// renews only while it is valid by its own clock. A renewal that arrives late, of
// a holder that has died, keeps others waiting for a TTL and does no other harm.
func (st *State) Renew(l lease.Lease, now Instant) (lease.Lease, error) {
	g := st.Grant
	switch {
	case g != nil && g.Holder == l.Holder && g.Revoked && g.lives(now):
		return lease.Lease{}, lease.ErrRevoked
	case st.owns(l) && !g.Cooldown && !g.Revoked && g.Boot == now.Boot:
		l.Reasserted = !g.lives(now)
		g.extend(now)
		g.Offered = l.Offered
	// A state that is behind the lease has been lost. What it still says of this holder is
	// no obstacle.
	case g.lives(now) && g.Holder != l.Holder && !st.remembered(now) || st.Token >= l.Token || slices.Contains(st.Released, l.Holder):
		return lease.Lease{}, lease.ErrLost
	default:
		st.grant(l.Token, &Grant{
			Holder: l.Holder, TTL: l.TTL.Milliseconds(), Boot: now.Boot,
			Acquired: l.AcquiredAt, MinHold: l.MinHoldUntil,
			Started: now.Wall - (now.Up - l.AcquiredAt), Tick: l.Tick, Offered: l.Offered, Meta: l.Meta,
		}, l.Period, l.Exact, now)
		l.Reasserted = true
	}
	st.Server, st.Settling = now.Server, nil
	renewed := st.lease(l.Period, l.Exact)
	renewed.Reasserted, renewed.Offered = l.Reasserted, l.Offered
	return renewed, nil
}

// remembered says that nobody was granted the key, or renewed it, since this server
// started: the state was written by another server, or before the restart. A grant with a
// smaller token than a living holder's came back with that older state. It had ended
// before that holder was granted the key.
func (st *State) remembered(now Instant) bool {
	return st.Server != "" && now.Server != "" && st.Server != now.Server
}

// Release is [lease.Store]'s. It may be called again after a lost reply, and after a loss: whatever of
// it has been done is not done twice.
func (st *State) Release(l lease.Lease, r lease.Result, now Instant) error {
	st.retire(l.Holder)
	own := st.owns(l)
	if own && !st.Grant.Cooldown {
		st.Settling = nil // its holder has been heard of
		st.end(l, r, now)
	}
	if r.Success && lease.Round(l.Period, l.Exact) > 0 && (l.Tick > st.Served || st.Served > now.Wall+lease.Reach(l.Period, l.Exact)) {
		st.Served = l.Tick
		st.remember(l.TTL.Milliseconds(), l.Period.Milliseconds(), 0)
	}
	if r.Ran {
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
		st.Grant.Cooldown, st.Grant.Expires = true, st.Grant.MinHold
		return
	}
	st.Grant = nil
	if round := lease.Round(l.Period, l.Exact); !r.Ran && round > 0 && sameRound(st.Anchor, l.Tick, round) && st.Starts > 0 {
		st.Starts--
	}
}

// owns says whether the newest grant is l. Revoking one moves the token on.
func (st *State) owns(l lease.Lease) bool {
	return st.Grant != nil && st.Grant.Holder == l.Holder && (st.Token == l.Token || st.Grant.Revoked)
}
