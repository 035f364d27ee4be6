package report

import (
	"bytes"
	"cmp"
	"strconv"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// WriteRuns writes a table of runs, in the same order.
func WriteRuns(b *bytes.Buffer, runs []lease.Run) {
	rows := [][]string{{"START", "TOOK", "EXIT", "OUTCOME", "HOST", "PID", "TOKEN", "TICK"}}
	for _, r := range runs {
		took := Nothing
		if r.End != 0 && !r.Vanished {
			took = lease.Span(between(r.Start, r.End))
		}
		rows = append(rows, []string{
			lease.Instant(r.Start), took, ended(r), cmp.Or(r.Outcome, Nothing), r.Host, strconv.Itoa(pid(r.Holder)), strconv.FormatInt(r.Token, 10), lease.Instant(r.Tick),
		})
	}
	WriteTable(b, rows)
}

func ended(r lease.Run) string {
	if r.Vanished {
		return "vanished"
	}
	return strconv.Itoa(r.Exit)
}
