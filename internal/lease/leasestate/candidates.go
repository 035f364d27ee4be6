package leasestate

import (
	"slices"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// noteEvery is how old, in ms, a host's note is when another answer than a grant renews
// it: such an answer writes nothing else.
const noteEvery = 3_600_000

// Unnoted reports whether the host of r, which got this answer, is still to be noted: it
// has ticks and was turned away, and its last note is old. A grant has noted it, and
// any other answer has it ask again at once.
func (st *State) Unnoted(r lease.Request, answer error, now Instant) bool {
	switch answer.(type) { //nolint:errorlint // Acquire wraps none
	case *lease.HeldError, *lease.DoneError, *lease.PausedError:
	default:
		return false
	}
	if lease.Round(r.Period, r.Exact) == 0 || st.Grant != nil && st.Grant.Foreign { // nothing is kept beside what is another program's
		return false
	}
	host := r.Holder.Host()
	return !slices.ContainsFunc(st.Candidates, func(c lease.Candidate) bool {
		return c.Host == host && c.Last <= now.Wall && now.Wall-c.Last < noteEvery
	})
}

// Note notes that the host of r has come, if it has ticks, and forgets those that have
// not come for as long as a state is kept.
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
