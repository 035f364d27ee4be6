package lease

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// ValidTime reports whether a time from the store, in milliseconds, is plausible.
func ValidTime(ms int64) bool {
	const year9999 = 253402300799999
	return ms > 0 && ms <= year9999
}

// Instant formats a time of the store in the local time zone; "-" if it is unknown.
func Instant(ms int64) string {
	if !ValidTime(ms) {
		return "-"
	}
	return time.UnixMilli(ms).Format("2006-01-02 15:04:05 MST")
}

// ShortInstant formats a time of the store without what it has in common with the store's present
// time: the day, or the year.
func ShortInstant(ms, now int64) string {
	if !ValidTime(ms) {
		return Instant(ms)
	}
	t, present := time.UnixMilli(ms), time.UnixMilli(now)
	switch {
	case t.Format(time.DateOnly) == present.Format(time.DateOnly):
		return t.Format("15:04")
	case t.Year() == present.Year():
		return t.Format("01-02 15:04")
	}
	return t.Format("2006-01-02")
}

// Span formats a duration, rounded for people.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return FormatDuration(d.Round(time.Millisecond))
	case d < time.Minute:
		return FormatDuration(d.Round(100 * time.Millisecond))
	case d < time.Hour:
		return FormatDuration(d.Round(time.Second))
	case d < day:
		return FormatDuration(d.Round(time.Minute))
	}
	days := fmt.Sprintf("%dd", d/day)
	if hours := (d % day).Truncate(time.Hour); hours > 0 {
		days += FormatDuration(hours)
	}
	return days
}

// FormatDuration formats a duration without zero units: 5m, not 5m0s.
func FormatDuration(d time.Duration) string {
	if d == math.MaxInt64 {
		return "forever"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
