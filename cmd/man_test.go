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

	"github.com/leaderrun/leaderrun/internal/settings"
	"github.com/leaderrun/leaderrun/internal/settings/settingstest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// The manual pages match the help of the commands.
func TestManPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "0") // or each day has pages of its own
	run := fullRoot()
	run.InitDefaultHelpCmd()
	want := map[string]string{"leaderrun.1": pageOfRun(run.Commands())}
	for _, c := range run.Commands() {
		want["leaderrun-"+c.Name()+".1"] = pageOfVerb(t, c)
	}
	for name, page := range want {
		file := filepath.Join("man", name)
		if *update {
			must.Succeed(t, os.WriteFile(file, []byte(page), 0o644))
		}
		if have, err := os.ReadFile(file); err != nil || string(have) != page {
			t.Errorf("%s is out of date (-update writes it anew): %v", file, err)
		}
	}
	files, err := filepath.Glob("man/*.1")
	if err != nil || len(files) != len(want) {
		t.Errorf("%d pages of %d commands: %q, %v", len(files), len(want), files, err)
	}
}

// pageOfVerb returns cobra's page with the sections of a manual.
func pageOfVerb(t *testing.T, command *cobra.Command) string {
	command.DisableAutoGenTag = true
	var b bytes.Buffer
	day := time.Unix(0, 0).UTC() // removed again: a page has no date
	must.Succeed(t, doc.GenMan(command, &doc.GenManHeader{Section: "1", Source: "leaderrun", Manual: "leaderrun", Date: &day}, &b))
	page := strings.Replace(b.String(), `"Jan 1970"`, `""`, 1)
	page = strings.Replace(page, ".SH EXAMPLE\n", ".SH EXAMPLES\n", 1)
	var sections string
	if command.Flags().Lookup("config") != nil {
		sections = sourcesOfVerbs
	}
	const status = ".PP\nExit status: "
	if before, rest, ok := strings.Cut(page, status); ok {
		text, after, _ := strings.Cut(rest, "\n\n\n")
		page, sections = before+"\n"+after, sections+".SH EXIT STATUS\n"+text+"\n\n\n"
	}
	at := strings.Index(page, ".SH EXAMPLES\n")
	if at < 0 {
		at = strings.Index(page, ".SH SEE ALSO\n")
	}
	return page[:at] + sections + page[at:]
}

const sourcesOfVerbs = `.SH ENVIRONMENT
LEADERRUN_STORE, LEADERRUN_PREFIX and so on, as for a run: see
\fBleaderrun(1)\fP\&.


.SH FILES
/etc/leaderrun/leaderrun.yaml, or leaderrun/leaderrun.yaml in the user's configuration directory.


`

// pageOfRun returns the page of a run, from the texts and the table of its help.
func pageOfRun(verbs []*cobra.Command) string {
	var b strings.Builder
	section := func(name, text string) { b.WriteString("\n.SH " + name + "\n" + text) }
	b.WriteString(".nh\n.TH \"LEADERRUN\" \"1\" \"\" \"leaderrun\" \"leaderrun\"\n")
	section("NAME", "leaderrun \\- run a command only while this host leads\n")
	section("SYNOPSIS", "\\fBleaderrun\\fP [flags] [\\-\\-] \\fICOMMAND\\fP [\\fIARG\\fP...]\n.br\n\\fBleaderrun\\fP \\fIVERB\\fP [flags]\n")
	section("DESCRIPTION", roff(purpose)+"Without a verb as the first word it runs COMMAND. The verbs are\n")
	var also []string
	for _, c := range verbs {
		name := "leaderrun\\-" + c.Name()
		b.WriteString(".TP\n\\fB" + c.Name() + "\\fP\n" + roff(c.Short+"."))
		also = append(also, "\\fB"+name+"\\fP(1)")
	}
	section("OPTIONS", "")
	for _, g := range settings.Groups {
		b.WriteString(".SS " + roff(g.Heading))
		for _, s := range g.Settings {
			b.WriteString(".TP\n\\fB" + strings.TrimSuffix(roff(s.Synopsis()), "\n") + "\\fP\n" + roff(s.Text()))
		}
	}
	b.WriteString(".SS Others\n.TP\n\\fB\\-h, \\-\\-help\\fP [\\fB\\-\\-all\\fP]\nshow the common flags, or all\n.TP\n\\fB\\-\\-version\\fP\nshow the version\n")
	section("ENVIRONMENT", roff(environment))
	section("FILES", ".TP\n/etc/leaderrun/leaderrun.yaml\nsettings of all users, by the names of the flags: ttl: 30s\n.TP\n$XDG_CONFIG_HOME/leaderrun/leaderrun.yaml\nsettings of a user, if the first file does not exist\n"+
		".TP\n$XDG_RUNTIME_DIR, /run/leaderrun, $TMPDIR\nthe lease file of a run is in the first of them that this user may write to\n")
	section("EXIT STATUS", roff(strings.ToUpper(commandStatus[:1])+commandStatus[1:]))
	for line := range strings.Lines(statuses) {
		number, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		b.WriteString(".TP\n\\fB" + number + "\\fP\n" + roff(strings.TrimSpace(text)))
	}
	section("EXAMPLES", ".EX\n"+roff(examples)+".EE\n")
	section("SEE ALSO", strings.Join(also, ",\n")+"\n")
	return b.String()
}

// roff returns text for a page, with an end of line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(strings.TrimRight(text, "\n"))
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		b.WriteString(line + "\n")
	}
	return b.String()
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
