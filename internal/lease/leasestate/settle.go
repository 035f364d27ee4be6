package leasestate

import (
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// doubt says how long the key has to settle before r is granted anything, and
// why: a holder may be alive of which this store cannot know, or whose lease is
// over by the store's clock alone.
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
		wait(now.Settle, lease.SettleFresh)
	}
	if st.remembered(now) {
		wait(now.Settle, lease.SettleRestarted)
	}
	g := st.Grant
	if !g.isLease() {
		return need, why
	}
	wait(now.Settle, lease.SettleExpired)
	if r.Seen.Token == st.Token && r.Seen.Expires == g.Expires { // its own clock may know better
		wait(min((r.Seen.Left+time.Millisecond-1).Milliseconds(), g.TTL), lease.SettleExpired)
	}
	return need, why
}

// serving is how long, in ms, a server must have kept all that it acknowledged
// until a key that it does not know is one that nobody has asked for: longer than
// any lease that could have been lost, see also two TTLs.
const serving = 90_000

// settle begins a settling or goes on with the one that is under way, and returns
// how long it still lasts.
func (st *State) settle(need int64, now Instant) (left int64) {
	const (
		asked   = 60_000     // all who waited for a settling have asked again by then
		longest = 86_400_000 // no settling lasts longer
	)
	s := st.Settling
	if s == nil || s.Boot != now.Boot || s.Server != now.Server || s.Since > now.Up+now.Apart || s.Due-now.Up > longest || now.Up-s.Due > asked+now.Apart {
		s = &Settling{Boot: now.Boot, Since: now.Up, Due: now.Up, Server: now.Server}
		st.Settling, now.Settled = s, 0
	}
	s.Due = max(s.Due, s.Since+need)
	if now.Apart > 0 {
		return s.Due - s.Since - now.Settled
	}
	return s.Due - now.Up
}
