package cmd

import (
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/leaderrun/leaderrun/internal/config"
)

func TestHelpListsTheFlags(t *testing.T) {
	flags := []string{"--help"}
	newFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != nowFlag {
			flags = append(flags, "--"+f.Name)
		}
		if f.Shorthand != "" {
			flags = append(flags, "-"+f.Shorthand)
		}
	})
	var told []string
	for _, m := range regexp.MustCompile(`(?:^|[\s,])(--?[a-zA-Z][a-z-]*)`).FindAllStringSubmatch(help, -1) {
		told = append(told, m[1])
	}
	for _, list := range []*[]string{&flags, &told} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	if !slices.Equal(flags, told) {
		t.Errorf("the help tells of %q, the flags are %q", told, flags)
	}
}

func TestHelpTellsTheDefaults(t *testing.T) {
	c := config.Default()
	c.Key, c.Command, c.OncePer = "k", []string{"job"}, time.Hour
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	for flag, byDefault := range map[string]string{
		"--prefix":         c.Prefix,
		"--ttl":            config.Text(c.TTL),
		"--wait":           strconv.Itoa(int(c.Wait)),
		"--skip-exit-code": strconv.Itoa(c.SkipExitCode),
		"--kill-after":     config.Text(c.KillAfter),
		"--lost-grace":     config.Text(c.LostGrace),
		"--store":          c.Store,
		"--tries":          strconv.Itoa(c.Tries),
		"--config":         defaultFiles()[0],
	} {
		if !regexp.MustCompile(`(?m)^ .*` + flag + ` [^(]*\(default ` + regexp.QuoteMeta(byDefault) + `[,;) ]`).MatchString(help) {
			t.Errorf("the help does not tell that %s is %s by default", flag, byDefault)
		}
	}
}

func TestHelpFitsATerminal(t *testing.T) {
	lines := strings.Split(help, "\n")
	if len(lines) > 75 {
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines {
		if len(line) > 90 || strings.Contains(line, "\t") {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

func TestVersion(t *testing.T) {
	noSettings(t)
	status, stdout, stderr := ran(t, "version")
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
