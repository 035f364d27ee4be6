package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// A version takes the unreleased changes, once, and its changes can be shown. Names of release
// candidates must be valid for all kinds of packages.
func TestChangelog(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, os.Mkdir(filepath.Join(dir, "scripts"), 0o700))
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "scripts", "changelog"), []byte(must.Read(t, "scripts/changelog")), 0o700))
	file := filepath.Join(dir, "CHANGELOG.md")
	const head, changes, before = "# Changelog\n\n## [Unreleased]\n", "\n### Added\n\n- a flag\n", "\n## [1.1.0] - 2026-01-02\n\n### Fixed\n\n- a bug\n"
	must.Succeed(t, os.WriteFile(file, []byte(head+changes+before), 0o600))
	changelog := func(args ...string) (string, error) {
		out, err := exec.Command(filepath.Join(dir, "scripts", "changelog"), args...).CombinedOutput()
		return string(out), err
	}
	for _, args := range [][]string{{}, {"v1.2.0"}, {"1.2"}, {"1.2.0-rc1"}, {"1.2.0-dev.1"}, {"1.1.0"}, {"-n", "1.2.0"}} {
		if out, err := changelog(args...); err == nil || out == "" {
			t.Errorf("%q: %q, %v", args, out, err)
		}
	}
	if out, err := changelog("1.2.0"); err != nil || out != "" {
		t.Errorf("%q, %v", out, err)
	}
	got := must.Read(t, file)
	cut, today, _ := strings.Cut(got, "\n## [1.2.0] - 20")
	if cut != head || len(today) < len("26-11-22") || today[len("26-11-22"):] != "\n"+changes+before {
		t.Errorf("%s", got)
	}
	if out, err := changelog("-n", "1.2.0"); err != nil || out != changes[1:] {
		t.Errorf("its changes: %q, %v", out, err)
	}
	if out, err := changelog("1.3.0"); err == nil || !strings.Contains(out, "nothing is unreleased") {
		t.Errorf("without changes: %q, %v", out, err)
	}
}
