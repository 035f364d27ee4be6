package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/settings"
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

// loaded is what load finds with these arguments and default files.
func loaded(t *testing.T, args []string, files ...string) (settings.Config, error) {
	t.Helper()
	flags := settings.NewFlags()
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return readSettings(flags, flags.Args(), files)
}

// ran runs Main and returns its status and what it wrote.
func ran(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	out, err := swap(t, &os.Stdout), swap(t, &os.Stderr)
	status = Main(args)
	return status, out(), err()
}

// swap sends what is written to f into a file, until the function it returns
// puts f back and tells what was written.
func swap(t *testing.T, f **os.File) func() string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "written"))
	if err != nil {
		t.Fatal(err)
	}
	before := *f
	*f = file
	return func() string {
		*f = before
		text, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}
