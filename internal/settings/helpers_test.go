package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// noSettings leaves a test without any setting but those it makes itself, and
// returns the user's configuration directory.
func noSettings(t *testing.T) string {
	t.Helper()
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		for _, prefix := range []string{"LEADERRUN_", "MUTEX_REDIS_", "REDIS_", "KUBERNETES_"} {
			if strings.HasPrefix(name, prefix) {
				t.Setenv(name, "") // so that it is put back at the end
				if err := os.Unsetenv(name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home)
	dir, err := os.UserConfigDir()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func setVariables(t *testing.T, variables ...string) {
	t.Helper()
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// loaded is what a run finds with these arguments and default files.
func loaded(t *testing.T, args []string, files ...string) (Config, error) {
	t.Helper()
	flags := NewFlags()
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	c, s, err := Read(flags, files)
	c.Command = flags.Args()
	if err == nil {
		err = s.Check(&c)
	}
	return c, err
}
