package cmd

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/leaderrun/leaderrun/internal/settings/settingstest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// The manual pages match the help of the commands.
func TestManPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "0") // or each day has pages of its own
	run := fullRoot()
	run.InitDefaultHelpCmd()
	run.ResetFlags() // the help lists them in order
	run.Short = "run a command only while this host leads"
	run.Long = verbatim(help())
	want := map[string]*cobra.Command{"leaderrun.1": run}
	for _, c := range run.Commands() {
		want["leaderrun-"+c.Name()+".1"] = c
	}
	for name, command := range want {
		command.DisableAutoGenTag = true
		var b bytes.Buffer
		day := time.Unix(0, 0).UTC() // removed again: a page has no date
		must.Succeed(t, doc.GenMan(command, &doc.GenManHeader{Section: "1", Source: "leaderrun", Manual: "leaderrun", Date: &day}, &b))
		page := bytes.Replace(b.Bytes(), []byte(`"Jan 1970"`), []byte(`""`), 1)
		file := filepath.Join("man", name)
		if *update {
			must.Succeed(t, os.WriteFile(file, page, 0o644))
		}
		if have, err := os.ReadFile(file); err != nil || !bytes.Equal(have, page) {
			t.Errorf("%s is out of date (-update writes it anew): %v", file, err)
		}
	}
	files, err := filepath.Glob("man/*.1")
	if err != nil || len(files) != len(want) {
		t.Errorf("%d pages of %d commands: %q, %v", len(files), len(want), files, err)
	}
}

// verbatim marks a text as preformatted.
func verbatim(text string) string {
	return "\t" + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n\t") + "\n"
}

// A page names the version.
func TestMan(t *testing.T) {
	settingstest.NoSettings(t)
	info, _ := debug.ReadBuildInfo()
	for _, args := range [][]string{{"man"}, {"man", "status"}} {
		if status, stdout, stderr := ran(t, args...); status != 0 || !strings.HasPrefix(stdout, ".nh\n.TH") || !strings.Contains(stdout, `"leaderrun `+info.Main.Version+`" "leaderrun"`+"\n") || stderr != "" {
			t.Errorf("%q: status %d, %.40q, %q", args, status, stdout, stderr)
		}
	}
	if status, stdout, stderr := ran(t, "man", "../../etc/passwd"); status != exitUsage || stdout != "" || !strings.Contains(stderr, "no such page") {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
}
