package cmd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/leaderrun/leaderrun/internal/settings"
)

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
// puts f back and returns what was written.
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
