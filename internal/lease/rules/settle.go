package rules

import (
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// settling returns how long a key settles for a holder with this TTL. One that cannot be called
// renews after a third of the TTL at most, and its request takes a fifteenth.
func (i Instant) settling(ttl int64) int64 {
	if i.Uncalled && i.Settle > 0 {
		return max(i.Settle, 2*ttl/5)
	}
	return i.Settle
}

// doubt returns how long the key has to settle before it is granted to r, and why: there
// may be a living holder that this store does not know, or whose lease is over only by the
// store's clock.
func (st *State) doubt(r lease.Request, now Instant) (need int64, why lease.SettleReason) {
	wait := func(ms int64, reason lease.SettleReason) {
		if ms > need {
			need, why = ms, reason
		}
	}
	if r.Seen.Token > st.Token {
		wait(max(now.Settle, r.Seen.TTL.Milliseconds()), lease.SettleRollback)
		return need, why
	}
	if now.Settle == 0 {
		return 0, ""
	}
	if st.Token == 0 && now.Serving <= max(2*r.TTL.Milliseconds(), serving) {
		wait(now.settling(r.TTL.Milliseconds()), lease.SettleFresh)
	}
	if st.remembered(now) {
		wait(now.settling(r.TTL.Milliseconds()), lease.SettleRestarted)
	}
	g := st.Grant
	if g != nil && g.Foreign && g.Vanished {
		wait(now.Settle, lease.SettleVanished)
	}
	if !g.isLease() {
		return need, why
	}
	if g.Vanished {
		wait(min(g.Expires-now.Up, max(g.TTL, g.rest(now))), lease.SettleVanished) // the clock may have gone back
	}
	wait(now.settling(g.TTL), lease.SettleExpired)
	begun := int64(0)
	if st.settles(now) { // what is left of the lease counts from now on
		begun = now.Settled
	}
	if r.Seen.Token == st.Token && r.Seen.Expires == g.Expires { // its own clock may ask for longer
		wait(begun+min((r.Seen.Left+time.Millisecond-1).Milliseconds(), g.TTL), lease.SettleExpired)
	}
	// The store's clock may have been set ahead, and the holder be out of reach. So the lease counts
	// as over only if the clock of the candidate's host has passed its end by the clock of the
	// holder's host, or if the candidate has seen no renewal for a TTL.
	wait(begun+min(g.Asked+g.TTL-now.Here, g.TTL-now.Unrenewed), lease.SettleExpired)
	return need, why
}

// serving is how long, in ms, a server must have lost no acknowledged writes before a key
// that it does not know counts as new: longer than any lease that could have been lost. With
// a TTL above 45 s it is two TTLs.
const serving = 90_000

// settles reports whether the key settles: not so if that began on another server or in another
// boot, long ago, or by a wrong clock.
func (st *State) settles(now Instant) bool {
	const (
		asked   = 60_000     // by then every candidate that waited has asked again
		longest = 86_400_000 // no settling lasts longer
	)
	s := st.Settling
	return s != nil && s.Boot == now.Boot && s.Server == now.Server && s.Since <= now.Up+now.Apart && s.Due-now.Up <= longest && now.Up-s.Due <= asked+now.Apart
}

// settle starts a settling or continues the current one, and returns how long it still
// lasts.
func (st *State) settle(need int64, now Instant) (left int64) {
	if !st.settles(now) {
		st.Settling, now.Settled = &Settling{Boot: now.Boot, Since: now.Up, Due: now.Up, Server: now.Server}, 0
		st.call(now)
	}
	s := st.Settling
	s.Due = max(s.Due, s.Since+need)
	return s.Due - s.Since - now.Settled
}
