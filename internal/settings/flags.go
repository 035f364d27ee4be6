package settings

import (
	"cmp"
	"errors"
	"strings"

	"github.com/spf13/pflag"
)

// NowFlag is -n. It has no long form: a name that begins with a dash cannot be
// typed.
const NowFlag = "-n"

// NewFlags returns the flags of a run. Their values are kept as text and parsed by
// [Config.Set], like the values from other sources.
func NewFlags() *pflag.FlagSet {
	f := pflag.NewFlagSet("leaderrun", pflag.ContinueOnError)
	f.Usage = func() {}      // cmd writes the messages
	f.SetInterspersed(false) // what follows COMMAND is the command's
	for _, s := range all() {
		switch {
		case s.Name == "verbose":
			f.VarPF(&level{"false"}, s.Name, s.Short, s.Usage).NoOptDefVal = "true"
		case s.Value == "":
			f.BoolP(s.Name, s.Short, false, s.Usage)
		default:
			f.VarP(&Text{s.shownDefault(), s.Value}, s.Name, s.Short, s.Usage)
		}
	}
	f.BoolP(NowFlag, "n", false, "do not stand by")
	return f
}

// Text is a pflag.Value that keeps any text. Kind stands for it in the help, which shows the
// default without quotes.
type Text struct{ Value, Kind string }

func (t *Text) String() string { return t.Value }

// Set implements pflag.Value.
func (t *Text) Set(value string) error { t.Value = value; return nil }

// Type implements pflag.Value.
func (t *Text) Type() string { return t.Kind }

// level is a pflag.Value: a switch that may be given twice, as -vv.
type level struct{ value string }

func (l *level) String() string { return l.value }

// Type implements pflag.Value: help and completion show a switch.
func (l *level) Type() string { return "bool" }

// Set implements pflag.Value.
func (l *level) Set(value string) error {
	if value == "true" && l.value != "false" { // -vvv is -vv
		value = twice
	}
	if _, err := parseLevel(value); err != nil {
		return errors.New(err.Problem)
	}
	l.value = value
	return nil
}

// FlagHelp lists the flags under their headings, as --help --all shows them.
func FlagHelp() string {
	var b strings.Builder
	for _, g := range Groups {
		b.WriteString(g.Heading + "\n")
		for _, s := range g.Settings {
			writeHelp(&b, 29, s.Synopsis(), s.Text())
		}
	}
	return b.String()
}

// CommonFlagHelp lists the common flags, each on one line.
func CommonFlagHelp() string {
	var b strings.Builder
	for _, s := range all() {
		if s.Common {
			writeHelp(&b, 23, s.Synopsis(), s.Usage)
		}
	}
	return b.String()
}

// Synopsis returns the flag as it is typed: -w, --wait D.
func (s Setting) Synopsis() string {
	text := "--" + s.Name
	if s.Short != "" {
		text = "-" + s.Short + ", " + text
	}
	if s.Value != "" {
		text += " " + s.Value
	}
	return text
}

// Text describes the flag with its default.
func (s Setting) Text() string {
	text := cmp.Or(s.Help, s.Usage)
	if byDefault := s.shownDefault(); byDefault != "" && !strings.Contains(text, "(default ") {
		text += " (default " + byDefault + ")"
	}
	return text
}

// writeHelp writes the flag, and in a column its description, in as many lines as it
// needs.
func writeHelp(b *strings.Builder, column int, synopsis, text string) {
	const width = 90
	line := "  " + synopsis
	if strings.HasPrefix(synopsis, "--") {
		line = "      " + synopsis
	}
	line += strings.Repeat(" ", max(0, column-1-len(line)))
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > width {
			b.WriteString(line + "\n")
			line = strings.Repeat(" ", column-1)
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}
