package cmd

import (
	"testing"

	"github.com/leaderrun/leaderrun/internal/settings/settingstest"
)

func TestTimeline(t *testing.T) {
	settingstest.NoSettings(t)
	for name, args := range map[string][]string{"30s.table": {}, "30s.json": {"-o", "json"}, "1s.table": {"--ttl", "1s"}, "unreliable.table": {"--profile", "unreliable", "-k", "1m"}} {
		status, stdout, stderr := ran(t, append([]string{"explain"}, args...)...)
		if status != 0 || stderr != "" {
			t.Errorf("%s: status %d, %s", name, status, stderr)
		}
		golden(t, "explain-"+name, stdout)
	}
}
