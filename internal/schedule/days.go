package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// AmbiguousError says that Debian's cron(8) and Kubernetes read different days from the schedule.
type AmbiguousError struct{ Day, Weekday string }

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("cron(8) of Debian and Kubernetes read the day %s with the weekday %s differently: one wants both to match, the other one of them", e.Day, e.Weekday)
}

// Hint says how to write it so that both read it in the same way.
func (e *AmbiguousError) Hint() string {
	const alone = "write * for one of the two, and let the command itself look at the other"
	if instead := strings.Replace(e.Day, "*/", "1-31/", 1); instead != e.Day {
		return fmt.Sprintf("write the day as %s: for both it runs then on days that match the day or the weekday; if you want days that match both, %s", instead, alone)
	}
	if instead := strings.Replace(e.Weekday, "*/", "0-6/", 1); instead != e.Weekday {
		return fmt.Sprintf("write the weekday as %s: for both it runs then on days that match the day or the weekday; if you want days that match both, %s", instead, alone)
	}
	return alone
}

// checkDays refuses days that depend on who reads them. Debian's cron takes every field that begins
// with * as unrestricted, Kubernetes every one that has * as an entry.
func (s *Schedule) checkDays(day, weekday string) error {
	debian := func(d int64) bool {
		date := time.Unix(d*secondsPerDay, 0).UTC()
		inMonth, inWeek := s.spec.Dom&(1<<date.Day()) != 0, s.spec.Dow&(1<<date.Weekday()) != 0
		both := inMonth && inWeek
		if day[0] != '*' && weekday[0] != '*' {
			both = inMonth || inWeek
		}
		return both && s.spec.Month&(1<<date.Month()) != 0
	}
	if slices.Equal(s.days(debian), s.days(s.includes)) {
		return nil
	}
	return &AmbiguousError{day, weekday}
}

// withoutSeven returns a weekday field without 7, which cron(8) reads as Sunday and the parser refuses.
func withoutSeven(field string) string {
	var entries []string
	for entry := range strings.SplitSeq(field, ",") {
		span, step, stepped := strings.Cut(entry, "/")
		first, last, isSpan := strings.Cut(span, "-")
		from, err := strconv.Atoi(first)
		by, badStep := strconv.Atoi(step)
		switch {
		case entry == "7":
			entry = "0"
		case err == nil && isSpan && last == "7" && from >= 0 && from <= 7 && (!stepped || badStep == nil && by > 0):
			entry = ""
			for day := from; day <= 7; day += max(by, 1) {
				entry += "," + strconv.Itoa(day%7)
			}
			entry = entry[1:]
		}
		entries = append(entries, entry)
	}
	return strings.Join(entries, ",")
}
