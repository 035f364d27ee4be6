package cmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/config"
	"github.com/leaderrun/leaderrun/internal/observe"
)

// format is the value of -o: how a verb answers.
type format string

const (
	asTable format = "table"
	asJSON  format = "json"
)

func (f *format) String() string { return string(*f) }
func (f *format) Type() string   { return "FORMAT" }

// Set is pflag's.
func (f *format) Set(value string) error {
	switch format(value) {
	case asTable, asJSON:
		*f = format(value)
		return nil
	}
	return &config.Error{Setting: "output", Value: value, Problem: "is neither table nor json", Cure: "use table or json"}
}

func outputFlag(command *cobra.Command) *format {
	f := asTable
	command.Flags().VarP(&f, "output", "o", "table or json")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{string(asTable), string(asJSON)}, cobra.ShellCompDirectiveNoFileComp))
	return &f
}

// print answers with v as JSON or with what people writes, all in one write.
func (f format) print(v any, people func(b *bytes.Buffer)) error {
	var b bytes.Buffer
	if f == asJSON {
		writeJSON(&b, v)
	} else {
		people(&b)
	}
	return printed(b.String())
}

// writeJSON writes v for programs, and for people who look at it on a terminal:
// what is not printable is escaped, too.
func writeJSON(b *bytes.Buffer, v any) {
	var plain bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // none of the types that are written here can fail
	for _, r := range plain.String() {
		if r == '\n' || unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(b, `\u%04x`, unit)
		}
	}
}

// table writes rows in columns. What stands in a cell may come from the store
// and be anything.
func table(b *bytes.Buffer, rows [][]string) {
	w := tabwriter.NewWriter(b, 0, 8, 3, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = observe.Printable(cell)
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // into memory
}

// nothing stands where there is nothing to tell.
const nothing = "-"

// tellable reports whether a time of the store can be one: it may hold anything.
func tellable(ms int64) bool {
	const year9999 = 253402300799999
	return ms > 0 && ms <= year9999
}

// instant is a time of the store on the clock of whoever reads it.
func instant(ms int64) string {
	if !tellable(ms) {
		return nothing
	}
	return time.UnixMilli(ms).Format("2006-01-02 15:04:05 MST")
}

// moment is a time of the store for programs; nil: nobody knows.
func moment(ms int64) *time.Time {
	if !tellable(ms) {
		return nil
	}
	t := time.UnixMilli(ms).UTC()
	return &t
}

// between is the time from one instant of the store to another.
func between(from, to int64) time.Duration {
	if !tellable(from) || !tellable(to) || to < from {
		return 0
	}
	return time.UnixMilli(to).Sub(time.UnixMilli(from))
}

// span is a duration as exact as people care for.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return config.Text(d.Round(time.Millisecond))
	case d < time.Minute:
		return config.Text(d.Round(100 * time.Millisecond))
	case d < time.Hour:
		return config.Text(d.Round(time.Second))
	case d < day:
		return config.Text(d.Round(time.Minute))
	}
	days := fmt.Sprintf("%dd", d/day)
	if hours := (d % day).Truncate(time.Hour); hours > 0 {
		days += config.Text(hours)
	}
	return days
}
