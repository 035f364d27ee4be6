package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// apart is by how much at least a host comes later for another tick, as it is noted: of
// a schedule only the distance from the newest tick is known, and notes are to the hour.
func apart(period time.Duration) time.Duration {
	return min(period/2, 12*time.Hour) + time.Hour
}

// returns reports whether a host has come for more than one tick: the name of a pod
// may never come again.
func returns(c lease.Candidate, period time.Duration) bool {
	return period > 0 && between(c.First, c.Last) >= apart(period)
}

// missing are the hosts that came for more than one tick, and not for the newest one,
// although they have had the time.
func missing(s lease.Status) (gone []lease.Candidate) {
	tick := newestTick(s)
	if between(tick, s.Now) <= min(s.Period/2, time.Hour) {
		return nil
	}
	for _, c := range s.Candidates {
		// The leader is busy.
		if returns(c, s.Period) && between(c.Last, tick) > apart(s.Period) && c.Host != s.Holder.Host() {
			gone = append(gone, c)
		}
	}
	return gone
}

// newestTick is the newest tick for which something was started, or that was served.
func newestTick(s lease.Status) int64 {
	tick := max(s.Served, s.Tick)
	for _, r := range s.Runs {
		tick = max(tick, r.Tick)
	}
	return tick
}

// missingText says which hosts are missing, and since when; "" for none.
func missingText(s lease.Status) string {
	const named = 3
	gone := missing(s)
	var texts []string
	for _, c := range gone[:min(len(gone), named)] {
		texts = append(texts, fmt.Sprintf("%s has not come since %s (%s)", c.Host, Instant(c.Last), Span(between(c.Last, s.Now))))
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
			rows = append(rows, []string{c.Host, fmt.Sprintf("%s (%s ago)", Instant(c.Last), Span(between(c.Last, s.Now)))})
		}
	}
	return rows
}
