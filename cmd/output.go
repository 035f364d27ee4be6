package cmd

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/report"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// format is the value of -o: how a verb answers.
type format string

const (
	asTable   format = "table"
	asJSON    format = "json"
	asWide    format = "wide"        // of status alone
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

// outputFlag adds -o to command, with table, json and more formats.
func outputFlag(command *cobra.Command, more ...format) *format {
	f := &formatFlag{asTable, []string{string(asTable), string(asJSON)}}
	for _, format := range more {
		f.formats = append(f.formats, string(format))
	}
	command.Flags().VarP(f, "output", "o", f.words())
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(f.formats, cobra.ShellCompDirectiveNoFileComp))
	return &f.format
}

// text returns v as JSON, or what table writes.
func (f format) text(v any, table func(b *bytes.Buffer)) string {
	var b bytes.Buffer
	if f == asJSON {
		report.WriteJSON(&b, v)
	} else {
		table(&b)
	}
	return b.String()
}

// print writes the same to stdout.
func (f format) print(v any, table func(b *bytes.Buffer)) error {
	return writeAnswer(f.text(v, table))
}

// writeAnswer writes a verb's answer to stdout, in one write.
func writeAnswer(answer string) error {
	if answer == "" { // some files refuse even an empty write
		return nil
	}
	if _, err := os.Stdout.WriteString(answer); err != nil {
		return fmt.Errorf("the answer cannot be written: %w", err)
	}
	return nil
}

// answerLine writes one line and returns result.
func answerLine(text string, result error) error {
	if err := writeAnswer(observe.Printable(text) + "\n"); err != nil {
		return err
	}
	return result
}
