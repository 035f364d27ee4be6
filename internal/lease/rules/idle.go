package rules

import "time"

// MinKeep is how long a state is kept after its last change, at least. It must be longer
// than the pause between runs of a monthly job.
const MinKeep = 35 * 24 * time.Hour

// Idle reports whether a state may be forgotten: unchanged for max(MinKeep, 3 periods, 2 TTLs), and never during a lease. If the clock may be set,
// a lease that was not released counts as living. Forgetting loses the runs, the ticks,
// which have all passed by then, and the token: the next token is the time, which is larger
// unless the clock was set back by as much.
func (st *State) Idle(now Instant) bool {
	taken := st.Grant.lives(now) || now.Settle > 0 && st.Grant.isLease()
	return st.Changed+st.Keep < now.Wall && !taken
}

// remember keeps the state for as long as a lease and its ticks need. A run without ticks
// does not shorten the life of the ticks of others.
func (st *State) remember(ttl, period, hold int64) {
	st.Keep = max(st.Keep, life(ttl, period), hold)
}

// life returns how long, in ms, the state of a lease and its ticks is kept.
func life(ttl, period int64) int64 { return max(MinKeep.Milliseconds(), 3*period, 2*ttl) }
