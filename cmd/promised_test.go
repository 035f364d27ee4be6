package cmd

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// testdata/promised lists what has been released. Lines may be added; none may be removed
// or changed within a major version (docs/compatibility.md).
func TestPromised(t *testing.T) {
	var now []string
	for _, command := range append(fullRoot().Commands(), fullRoot()) {
		command.InitDefaultHelpFlag()
		command.Flags().VisitAll(func(f *pflag.Flag) {
			value := " VALUE"
			if f.NoOptDefVal != "" {
				value = ""
			}
			now = append(now, strings.TrimRight(fmt.Sprintf("flag %s --%s -%s%s %s", command.Name(), f.Name, f.Shorthand, value, f.DefValue), " "))
		})
	}
	settings := must.Read(t, "../docs/settings.md") // whose tables are compared with the code
	_, events, _ := strings.Cut(settings, "| event | level |")
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(events, -1) {
		for _, event := range regexp.MustCompile("[a-z-]+").FindAllString(row[1], -1) {
			now = append(now, "event "+event)
		}
	}
	for _, row := range exitTable {
		now = append(now, strings.TrimRight(fmt.Sprintf("status %d %s %s", row.want, row.result.Outcome, row.set), " "))
	}
	slices.Sort(now)
	now = slices.Compact(now)

	file := filepath.Join("testdata", "promised")
	if *update {
		must.Succeed(t, os.WriteFile(file, []byte(strings.Join(now, "\n")+"\n"), 0o644))
	}
	promised := must.Read(t, file)
	for line := range strings.Lines(promised) {
		if line = strings.TrimSuffix(line, "\n"); !slices.Contains(now, line) {
			t.Errorf("promised, and not there: %s", line)
		}
	}
}
