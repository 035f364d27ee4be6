// Package report formats the answers of the verbs that only read: what a store knows
// about its keys, and which times follow from the settings. It writes text and tables for
// people, JSON and metrics for programs. It is pure: its input is a [lease.Status] or
// settings, and all times are the store's.
//
// It guarantees that everything it writes is printable, whatever the store contains.
// It does not report what a verb has changed: the verb does.
package report

import (
	"bytes"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/observe"
)

// WriteTable writes rows in columns. Cells may come from the store, so they are made
// printable.
func WriteTable(b *bytes.Buffer, rows [][]string) {
	const gap = 3
	writeTable(b, rows, gap)
}

func writeTable(b *bytes.Buffer, rows [][]string, gap int) {
	w := tabwriter.NewWriter(b, 0, 8, gap, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = observe.Printable(cell)
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // into memory
}

// Nothing is shown in a cell without a value.
const Nothing = "-"

// between returns the time from one instant of the store to another.
func between(from, to int64) time.Duration {
	if !lease.ValidTime(from) || !lease.ValidTime(to) || to < from {
		return 0
	}
	return time.UnixMilli(to).Sub(time.UnixMilli(from))
}
