package cmd

import (
	"regexp"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/settings/settingstest"
)

func TestConfig(t *testing.T) {
	settingstest.NoSettings(t)
	t.Setenv("LEADERRUN_KILL_AFTER", "20s")
	file := settingstest.WriteFile(t, "store: redis://cron:s3cret@db:6379/0\nrejoin: true\n")
	for _, output := range []string{"table", "json"} {
		status, stdout, stderr := ran(t, "config", "--ttl", "1m", "--config", file, "-o", output)
		if status != 0 || stderr != "" || strings.Contains(stdout, "s3cret") {
			t.Errorf("status %d, %s%s", status, stdout, stderr)
		}
		stdout = regexp.MustCompile(` +FROM`).ReplaceAllString(strings.ReplaceAll(stdout, file, "FILE"), " FROM")
		golden(t, "config."+output, regexp.MustCompile(`(?m) {2,}(\S+( \S+)?)$`).ReplaceAllString(stdout, " $1"))
	}
}

func TestConfigShowsTheProfile(t *testing.T) {
	settingstest.NoSettings(t)
	_, stdout, _ := ran(t, "config", "--profile", "fast")
	if !regexp.MustCompile(`(?m)^ttl +15s +--profile$`).MatchString(stdout) {
		t.Error(stdout)
	}
}

func TestConfigMasksHooks(t *testing.T) {
	settingstest.NoSettings(t)
	t.Setenv("LEADERRUN_ON_LOST", "/bin/curl -d lost --url=https://u:s3cret@hooks/x?a=b")
	_, stdout, _ := ran(t, "config")
	if !strings.Contains(stdout, "/bin/curl -d lost --url=https://u:***@hooks/x?a=*** ") {
		t.Error(stdout)
	}
}
