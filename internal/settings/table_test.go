package settings

import (
	"cmp"
	"flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

var update = flag.Bool("update", false, "write the generated part of docs/settings.md anew")

// The defaults shown in the table are the values of Default.
func TestDefaultsOfTheTable(t *testing.T) {
	for _, s := range all() {
		if s.Default == "" || slices.Contains([]string{"renew", "retry", "tries"}, s.Name) {
			continue // none, derived, or only with ticks
		}
		want := Default()
		want.Key, want.Command = "k", []string{"job"}
		got := want
		if err := got.Set(s.Name, s.Default); err != nil {
			t.Errorf("%s: %v", s.Name, err)
			continue
		}
		got.SkipExitCodeNamed, got.SignalNamed = false, false
		for _, c := range []*Config{&want, &got} {
			must.Succeed(t, c.Validate())
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s is not %s by default:\n%+v\n%+v", s.Name, s.Default, got, want)
		}
	}
	c := Default()
	c.Key, c.Command, c.OncePer = "k", []string{"job"}, elect.MinTTL*60
	if err := c.Validate(); err != nil || c.Renew != c.TTL/3 || c.Retry != c.TTL/6 || c.Tries != 2 {
		t.Errorf("renew %s, retry %s, tries %d, %v", c.Renew, c.Retry, c.Tries, err)
	}
}

// Every choice offered by completion is a valid value.
func TestChoicesAreValues(t *testing.T) {
	for _, s := range all() {
		for _, choice := range s.Choices {
			c := Default()
			if err := c.Set(s.Name, choice); err != nil {
				t.Error(err)
			}
		}
	}
}

// docs/settings.md has the same table of settings as this package.
func TestDocumentHasTheTable(t *testing.T) {
	const page, head = "../../docs/settings.md", "| flag | default | meaning |\n|---|---|---|\n"
	var b strings.Builder
	b.WriteString(head)
	for _, s := range all() {
		name := "--" + s.Name
		if s.Short != "" {
			name = "-" + s.Short + ", " + name
		}
		if s.Value != "" {
			name += " " + s.Value
		}
		byDefault := s.Default
		if byDefault != "" {
			byDefault = "`" + byDefault + "`"
		}
		b.WriteString("| `" + name + "` | " + byDefault + " | " + cmp.Or(s.Help, s.Usage) + " |\n")
	}
	want := b.String()
	have := must.Read(t, page)
	if strings.Contains(have, want+"\n") {
		return
	}
	if !*update {
		t.Fatalf("%s has another table of settings (-update writes it anew)", page)
	}
	before, rest, ok := strings.Cut(have, head)
	_, after, ended := strings.Cut(rest, "\n\n")
	if strings.HasPrefix(rest, "\n") {
		after, ended = rest[1:], true
	}
	if !ok || !ended {
		t.Fatalf("%s has no table to write anew", page)
	}
	must.Succeed(t, os.WriteFile(page, []byte(before+want+"\n"+after), 0o644))
}
