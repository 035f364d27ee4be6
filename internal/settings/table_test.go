package settings

import (
	"cmp"
	"flag"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

var update = flag.Bool("update", false, "write the generated part of docs/settings.md anew")

// All defaults of the table can be read, and are those of the contract.
func TestDefaultsOfTheTable(t *testing.T) {
	for _, s := range all() {
		if s.Default != "" && s.set != nil {
			must.Succeed(t, new(Config).Set(s.Name, s.Default))
		}
	}
	want := Config{
		Slots: 1, Store: "redis://127.0.0.1:6379/0", Prefix: "leaderrun", Profile: Normal,
		Signal: syscall.SIGTERM, KillAfter: 10 * time.Second, LostGrace: time.Second,
	}
	if got := Default(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	c := Default()
	c.Key, c.Command, c.OncePer = "k", []string{"job"}, time.Minute
	if err := c.Validate(); err != nil || c.TTL != 30*time.Second || c.Renew != 10*time.Second || c.Retry != 5*time.Second || c.Tries != 2 {
		t.Errorf("%+v, %v", c, err)
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
		byDefault := s.shownDefault()
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
