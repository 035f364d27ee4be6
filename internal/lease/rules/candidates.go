package rules

import (
	"slices"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// noteEvery is how old a host's record must be, in ms, before a denial updates it: a denial
// writes nothing else.
const noteEvery = 3_600_000

// Unnoted reports whether the host of r, which got this answer, has yet to be recorded: it
// has ticks, was denied, and its last record is old. A grant has recorded it, and after any
// other answer it asks again at once.
func (st *State) Unnoted(r lease.Request, answer error, now Instant) bool {
	switch answer.(type) { //nolint:errorlint // Acquire wraps none
	case *lease.HeldError, *lease.DoneError, *lease.PausedError:
	default:
		return false
	}
	if lease.Round(r.Period, r.Exact) == 0 || st.Grant != nil && st.Grant.Foreign { // no state is kept for another program's lease
		return false
	}
	host := r.Holder.Host()
	return !slices.ContainsFunc(st.Candidates, func(c lease.Candidate) bool {
		return c.Host == host && c.Last <= now.Wall && now.Wall-c.Last < noteEvery
	})
}

// Note records that the host of r came, if it has ticks, and forgets the hosts that have not
// come for as long as a state is kept.
func (st *State) Note(r lease.Request, now Instant) {
	if lease.Round(r.Period, r.Exact) == 0 {
		return
	}
	own := lease.Candidate{Host: r.Holder.Host(), First: now.Wall, Last: now.Wall}
	oldest := now.Wall - life(r.TTL.Milliseconds(), r.Period.Milliseconds())
	all := []lease.Candidate{own}
	for _, c := range st.Candidates {
		c.First, c.Last = min(c.First, now.Wall), min(c.Last, now.Wall) // the clock may have been wrong
		switch {
		case c.Last <= oldest:
		case c.Host == own.Host:
			all[0].First = c.First
		default:
			all = append(all, c)
		}
	}
	st.Candidates = all[:min(len(all), lease.MaxCandidates)]
}
