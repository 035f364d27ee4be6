package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// apart is the least time between two notes of a host that are for different ticks. Runs for
// the same tick may come up to half a period apart. The period of a schedule is only the newest
// of its gaps, and others may be shorter, so it is 12 hours at most. Notes are to the hour.
func apart(period time.Duration) time.Duration {
	return min(period/2, 12*time.Hour) + time.Hour
}

// recurs reports whether a host has come for more than one tick. Others may be pods,
// whose names never come again.
func recurs(c lease.Candidate, period time.Duration) bool {
	return period > 0 && between(c.First, c.Last) >= apart(period)
}

// missing returns the hosts that came for more than one tick but not for the newest,
// although they have had time to.
func missing(s lease.Status) (gone []lease.Candidate) {
	tick := newestTick(s)
	if between(tick, s.Now) <= min(s.Period/2, time.Hour) {
		return nil
	}
	for _, c := range s.Candidates {
		// The leader is busy, not missing.
		if recurs(c, s.Period) && between(c.Last, tick) > apart(s.Period) && c.Host != s.Holder.Host() {
			gone = append(gone, c)
		}
	}
	return gone
}

// newestTick returns the newest tick that was started or served.
func newestTick(s lease.Status) int64 {
	tick := max(s.ServedTick, s.Tick)
	for _, r := range s.Runs {
		tick = max(tick, r.Tick)
	}
	return tick
}

// missingText says which hosts are missing and since when; "" if none.
func missingText(s lease.Status) string {
	const named = 3
	gone := missing(s)
	var texts []string
	for _, c := range gone[:min(len(gone), named)] {
		texts = append(texts, fmt.Sprintf("%s has not come since %s (%s)", c.Host, lease.Instant(c.Last), lease.Span(between(c.Last, s.Now))))
	}
	if more := len(gone) - named; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, ", ")
}

func candidateRows(s lease.Status) [][]string {
	const shown = 10 // and those that are missing, which came before
	rows := [][]string{{"HOST", "LAST CAME"}}
	gone := missing(s)
	for i, c := range s.Candidates {
		if i < shown || slices.Contains(gone, c) {
			rows = append(rows, []string{c.Host, fmt.Sprintf("%s (%s ago)", lease.Instant(c.Last), lease.Span(between(c.Last, s.Now)))})
		}
	}
	return rows
}
