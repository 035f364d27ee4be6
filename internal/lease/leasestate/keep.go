package leasestate

import "time"

// MinKeep is the shortest life of a state after its last change. It must outlast
// the silence of a monthly job.
const MinKeep = 35 * 24 * time.Hour

// Idle reports whether a state that was last changed then, in wall time, may be
// forgotten: after max(MinKeep, 3 periods, 2 TTLs), and never during a lease. By a clock
// that may be set nobody can tell that one is over which nobody has released. What
// is lost are the runs, the ticks, which are all served by then, and the token:
// the next one is the time, which is larger unless the clock has been set back by
// as much. A state of an older leaderrun does not say how long it must be kept.
func (st *State) Idle(changed int64, now Instant) bool {
	taken := st.Grant.lives(now) || now.Settle > 0 && st.Grant.isLease()
	return st.Keep > 0 && changed+st.Keep < now.Wall && !taken
}

// remember has the state kept for no less than a lease and its ticks need. A run
// without ticks does not shorten the life of those of others.
func (st *State) remember(ttl, period, hold int64) {
	st.Keep = max(st.Keep, life(ttl, period), hold)
}

// life is for how long, in ms, what a lease and its ticks leave behind is kept.
func life(ttl, period int64) int64 { return max(MinKeep.Milliseconds(), 3*period, 2*ttl) }
