// Package settingstest isolates tests from the settings of the user and the machine.
// Only tests may import it.
package settingstest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// NoSettings hides all settings from a test and returns an empty configuration
// directory of the user.
func NoSettings(t *testing.T) string {
	t.Helper()
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		for _, prefix := range []string{"LEADERRUN_", "MUTEX_REDIS_", "REDIS_", "KUBERNETES_"} {
			if strings.HasPrefix(name, prefix) {
				t.Setenv(name, "") // restores it at the end of the test
				must.Succeed(t, os.Unsetenv(name))
			}
		}
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home)
	dir, err := os.UserConfigDir()
	must.Succeed(t, err)
	return dir
}

// SetVariables sets variables in the form NAME=VALUE for a test.
func SetVariables(t *testing.T, variables ...string) {
	t.Helper()
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
}

// WriteFile makes a file of settings and returns its path.
func WriteFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "settings.yaml")
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}
