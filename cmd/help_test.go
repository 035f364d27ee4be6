package cmd

import (
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/leaderrun/leaderrun/internal/settings"
	"github.com/leaderrun/leaderrun/internal/settings/settingstest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

func TestHelpListsTheFlags(t *testing.T) {
	flags := []string{"--help"}
	settings.NewFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != settings.NowFlag {
			flags = append(flags, "--"+f.Name)
		}
		if f.Shorthand != "" {
			flags = append(flags, "-"+f.Shorthand)
		}
	})
	flags = append(flags, "--all")
	var listed []string
	for _, m := range regexp.MustCompile(`(?:^|[\s,])(--?[a-zA-Z][a-z-]*)`).FindAllStringSubmatch(fullHelp()+help(), -1) {
		listed = append(listed, m[1])
	}
	for _, list := range []*[]string{&flags, &listed} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	if !slices.Equal(flags, listed) {
		t.Errorf("the help lists %q, the flags are %q", listed, flags)
	}
}

func TestHelpFitsATerminal(t *testing.T) {
	if lines := strings.Count(help(), "\n"); lines > 24 {
		t.Errorf("%d lines", lines)
	}
	for text, columns := range map[string]int{help(): 80, fullHelp(): 90} {
		for line := range strings.Lines(text) {
			if len(line) > columns+len("\n") || strings.Contains(line, "\t") {
				t.Errorf("%d columns: %s", len(line), line)
			}
		}
	}
	if n := len(regexp.MustCompile(`(?m)^ +(-\w, )?--`).FindAllString(help(), -1)); n != 10 {
		t.Errorf("%d flags", n)
	}
}

func TestVersion(t *testing.T) {
	settingstest.NoSettings(t)
	_, same, _ := ran(t, "--version")
	status, stdout, stderr := ran(t, "version")
	if same != stdout {
		t.Errorf("--version says %q", same)
	}
	if status != 0 || stderr != "" || !strings.HasPrefix(stdout, "leaderrun ") || !strings.Contains(stdout, runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH) {
		t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	info := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc123"}, {Key: "vcs.modified", Value: "true"},
	}}
	if got := versionText(info); !strings.HasPrefix(got, "leaderrun v1.2.3 (abc123, modified)\n") {
		t.Errorf("%q", got)
	}
	info.Settings[1].Value = "false"
	if got := versionText(info); !strings.HasPrefix(got, "leaderrun v1.2.3 (abc123)\n") {
		t.Errorf("%q", got)
	}
}

// docs/settings.md names every flag of every verb.
func TestFlagsAreDocumented(t *testing.T) {
	page := must.Read(t, "../docs/settings.md")
	for _, command := range append(fullRoot().Commands(), fullRoot()) {
		command.InitDefaultHelpFlag()
		command.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name == settings.NowFlag { // -n: explained with --wait
				return
			}
			if !regexp.MustCompile("[` ]--" + f.Name + "[` ]").MatchString(page) {
				t.Errorf("docs/settings.md does not explain --%s of %s", f.Name, command.Name())
			}
		})
	}
}

// help VERB is VERB --help.
func TestHelpOfAVerb(t *testing.T) {
	settingstest.NoSettings(t)
	for name := range verbs() {
		_, want, _ := ran(t, name, "--help")
		if status, got, stderr := ran(t, "help", name); status != 0 || got != want || stderr != "" {
			t.Errorf("help %s: status %d, %q, stderr %q", name, status, got, stderr)
		}
	}
}
