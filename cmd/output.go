package cmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// format is the value of -o: how a verb answers.
type format string

const (
	asTable   format = "table"
	asJSON    format = "json"
	asMetrics format = "openmetrics" // of status alone
)

func (f format) String() string { return string(f) }

// formatFlag is -o of a verb, as a pflag.Value.
type formatFlag struct {
	format
	formats []string
}

func (f *formatFlag) Type() string { return "FORMAT" }

// Set implements pflag.Value.
func (f *formatFlag) Set(value string) error {
	if slices.Contains(f.formats, value) {
		f.format = format(value)
		return nil
	}
	return &settings.Error{Setting: "output", Value: value, Problem: "is no format of this verb", Hint: "use " + f.words()}
}

func (f *formatFlag) words() string { return strings.Join(f.formats, " or ") }

// outputFlag gives command -o; more are formats beside table and json.
func outputFlag(command *cobra.Command, more ...format) *format {
	f := &formatFlag{asTable, []string{string(asTable), string(asJSON)}}
	for _, format := range more {
		f.formats = append(f.formats, string(format))
	}
	command.Flags().VarP(f, "output", "o", f.words())
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(f.formats, cobra.ShellCompDirectiveNoFileComp))
	return &f.format
}

// text is v as JSON, or what people writes.
func (f format) text(v any, people func(b *bytes.Buffer)) string {
	var b bytes.Buffer
	if f == asJSON {
		writeJSON(&b, v)
	} else {
		people(&b)
	}
	return b.String()
}

// print writes that in one write.
func (f format) print(v any, people func(b *bytes.Buffer)) error {
	return writeAnswer(f.text(v, people))
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

// table writes rows in columns. A cell may come from the store, so it may hold
// anything.
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

// nothing is a cell without a value.
const nothing = "-"

// validTime reports whether a time of the store can be one: it may hold anything.
func validTime(ms int64) bool {
	const year9999 = 253402300799999
	return ms > 0 && ms <= year9999
}

// instant writes a time of the store in the local time zone.
func instant(ms int64) string {
	if !validTime(ms) {
		return nothing
	}
	return time.UnixMilli(ms).Format("2006-01-02 15:04:05 MST")
}

// moment is a time of the store for JSON; nil: unknown.
func moment(ms int64) *time.Time {
	if !validTime(ms) {
		return nil
	}
	t := time.UnixMilli(ms).UTC()
	return &t
}

// between is the time from one instant of the store to another.
func between(from, to int64) time.Duration {
	if !validTime(from) || !validTime(to) || to < from {
		return 0
	}
	return time.UnixMilli(to).Sub(time.UnixMilli(from))
}

// span writes a duration, rounded for people.
func span(d time.Duration) string {
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

// writeAnswer writes what a verb answers to stdout, in one write.
func writeAnswer(answer string) error {
	if answer == "" { // some files refuse even that
		return nil
	}
	if _, err := os.Stdout.WriteString(answer); err != nil {
		return fmt.Errorf("the answer cannot be written: %w", err)
	}
	return nil
}

// answerLine answers with one line and returns result.
func answerLine(text string, result error) error {
	if err := writeAnswer(observe.Printable(text) + "\n"); err != nil {
		return err
	}
	return result
}
