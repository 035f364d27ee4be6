package settings

import (
	"cmp"
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
		if s.Value == "" {
			f.BoolP(s.Name, s.Short, false, s.Usage)
		} else {
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

// FlagHelp lists the flags under their headings, as --help shows them.
func FlagHelp() string {
	var b strings.Builder
	for _, g := range Groups {
		b.WriteString(g.Heading + "\n")
		for _, s := range g.Settings {
			s.writeHelp(&b)
		}
	}
	return b.String()
}

// writeHelp writes the flag, and in the next column its description, in as many lines as it
// needs.
func (s Setting) writeHelp(b *strings.Builder) {
	const column, width = 29, 90
	line := "      --" + s.Name
	if s.Short != "" {
		line = "  -" + s.Short + ", --" + s.Name
	}
	if s.Value != "" {
		line += " " + s.Value
	}
	line += strings.Repeat(" ", max(0, column-1-len(line)))
	text := cmp.Or(s.Help, s.Usage)
	words := strings.Fields(text)
	if byDefault := s.shownDefault(); byDefault != "" && !strings.Contains(text, "(default ") {
		words = append(words, "(default "+byDefault+")")
	}
	for _, word := range words {
		if len(line)+1+len(word) > width {
			b.WriteString(line + "\n")
			line = strings.Repeat(" ", column-1)
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}
