// Package report words the answers of verbs that only look: what a store knows of its
// keys, and what durations lead to. It writes sentences and tables for people, JSON and
// metrics for programs. It is pure: it looks at a [lease.Status] or at settings alone,
// and its instants are the store's.
//
// A store may hold anything: whatever comes from there is printable in tables and in JSON.
// What a verb has done is said by the verb.
package report

import (
	"bytes"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// WriteTable writes rows in columns. A cell may come from the store, so it may hold
// anything.
func WriteTable(b *bytes.Buffer, rows [][]string) {
	w := tabwriter.NewWriter(b, 0, 8, 3, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = observe.Printable(cell)
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // into memory
}

// Nothing is a cell without a value.
const Nothing = "-"

// validTime reports whether a time of the store can be one: it may hold anything.
func validTime(ms int64) bool {
	const year9999 = 253402300799999
	return ms > 0 && ms <= year9999
}

// Instant writes a time of the store in the local time zone.
func Instant(ms int64) string {
	if !validTime(ms) {
		return Nothing
	}
	return time.UnixMilli(ms).Format("2006-01-02 15:04:05 MST")
}

// between is the time from one instant of the store to another.
func between(from, to int64) time.Duration {
	if !validTime(from) || !validTime(to) || to < from {
		return 0
	}
	return time.UnixMilli(to).Sub(time.UnixMilli(from))
}

// Span writes a duration, rounded for people.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return settings.FormatDuration(d.Round(time.Millisecond))
	case d < time.Minute:
		return settings.FormatDuration(d.Round(100 * time.Millisecond))
	case d < time.Hour:
		return settings.FormatDuration(d.Round(time.Second))
	case d < day:
		return settings.FormatDuration(d.Round(time.Minute))
	}
	days := fmt.Sprintf("%dd", d/day)
	if hours := (d % day).Truncate(time.Hour); hours > 0 {
		days += settings.FormatDuration(hours)
	}
	return days
}
