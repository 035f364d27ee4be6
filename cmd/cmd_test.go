package cmd

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/leaderrun/leaderrun/internal/settings"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares an answer with testdata/golden/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "golden", name)
	if *update {
		must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must.Succeed(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want := must.Read(t, file)
	if got != want {
		t.Errorf("%s (-update writes it anew)\ngot\n%s\nwant\n%s", file, got, want)
	}
}

// answer is what a verb prints, and how it ends.
func answer(t *testing.T, ask func() error) (string, error) {
	t.Helper()
	local := time.Local
	time.Local = time.UTC
	defer func() { time.Local = local }()
	out := swap(t, &os.Stdout)
	err := ask()
	return out(), err
}

// harmless checks that text has no control characters, and is JSON if asked for.
func harmless(t *testing.T, text string, output format) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%q in %q", r, text)
		}
	}
	if output == asJSON && (!json.Valid([]byte(text)) || strings.Contains(text, `""`)) { // what is unknown is null
		t.Errorf("not JSON, or with an empty text: %s", text)
	}
}

// loaded returns the settings read from these arguments and files.
func loaded(t *testing.T, args []string, files ...string) (settings.Config, error) {
	t.Helper()
	flags := settings.NewFlags()
	must.Succeed(t, flags.Parse(args))
	return readSettings(flags, flags.Args(), files)
}

// ran runs Main and returns its status and output.
func ran(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	out, err := swap(t, &os.Stdout), swap(t, &os.Stderr)
	status = Main(args)
	return status, out(), err()
}

// swap redirects f to a temporary file. The function it returns restores f and
// returns what was written.
func swap(t *testing.T, f **os.File) func() string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "written"))
	must.Succeed(t, err)
	before := *f
	*f = file
	return func() string {
		*f = before
		text := must.Read(t, file.Name())
		must.Succeed(t, file.Close())
		return text
	}
}
