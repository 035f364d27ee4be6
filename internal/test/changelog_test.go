package test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// A version takes the unreleased changes, once, and its changes can be shown. Names of release
// candidates must be valid for all kinds of packages.
func TestChangelog(t *testing.T) {
	const head, changes, before = "# Changelog\n\n## [Unreleased]\n", "\n### Added\n\n- a flag\n", "\n## [1.1.0] - 2026-01-02\n\n### Fixed\n\n- a bug\n"
	dir, run := project(t, map[string]string{"project/scripts/changelog": must.Read(t, "scripts/changelog"), "project/CHANGELOG.md": head + changes + before})
	changelog := func(args ...string) (string, error) { return run("scripts/changelog", args...) }
	for _, args := range [][]string{{}, {"v1.2.0"}, {"1.2"}, {"1.2.0-rc1"}, {"1.2.0-dev.1"}, {"1.1.0"}, {"-n", "1.2.0"}} {
		if out, err := changelog(args...); err == nil || out == "" {
			t.Errorf("%q: %q, %v", args, out, err)
		}
	}
	if out, err := changelog("1.2.0"); err != nil || out != "" {
		t.Errorf("%q, %v", out, err)
	}
	got := must.Read(t, filepath.Join(dir, "project", "CHANGELOG.md"))
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
