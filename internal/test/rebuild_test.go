package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// project makes a repository with one commit of the files below project/, and puts the
// programs below bin/ first in the PATH. run runs a program there.
func project(t *testing.T, files map[string]string) (dir string, run func(name string, args ...string) (string, error)) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o700))
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o700))
	}
	run = func(name string, args ...string) (string, error) {
		c := exec.Command(name, args...)
		c.Dir = filepath.Join(dir, "project")
		c.Env = append(os.Environ(), "ROOT="+dir, "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"),
			"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_VALUE_0=t", "GIT_CONFIG_KEY_1=user.email", "GIT_CONFIG_VALUE_1=t@localhost",
			"GIT_CONFIG_GLOBAL=/dev/null")
		out, err := c.CombinedOutput()
		return string(out), err
	}
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "."}, {"commit", "--quiet", "--message", "a"}} {
		if out, err := run("git", args...); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	return dir, run
}

// A release is rebuilt only if that fixes something, and as a new version, since nobody
// accepts other files for an existing version.
func TestRebuild(t *testing.T) {
	// Stubs of the forge, the registry and the scanner. The release's program is "old".
	// The scanner's findings for a program are in the file of the same name.
	dir, run := project(t, map[string]string{
		"project/scripts/rebuild": must.Read(t, "scripts/rebuild"),
		"bin/gh": `#!/bin/sh
echo "$@" >>"$ROOT/calls"
[ "$1" = workflow ] || { cd "$7" && mkdir leaderrun_1 && echo old >leaderrun_1/leaderrun && tar -czf leaderrun_1.tar.gz leaderrun_1 && rm -r leaderrun_1; }
`,
		"bin/go": `#!/bin/sh
case $1 in
install) cp "$ROOT/bin/govulncheck" "$GOBIN" ;;
build) echo new >"$4" ;;
env) echo go1.99 ;;
esac
`,
		"bin/govulncheck": `#!/bin/sh
! grep -qx "$(cat "$3")" "$ROOT/found"
`,
	})
	git := func(args ...string) string {
		t.Helper()
		out, err := run("git", args...)
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return out
	}
	git("init", "--quiet", "--bare", "../origin.git")
	git("remote", "add", "origin", "../origin.git")
	if out, err := run("scripts/rebuild"); err != nil || out != "nothing is released yet\n" {
		t.Errorf("without a tag: %q, %v", out, err)
	}
	git("tag", "--annotate", "--message=m", "v1.2.9")
	git("tag", "v1.2.10") // without a message, as release.yml takes it
	git("commit", "--quiet", "--allow-empty", "--message", "b")
	git("tag", "v1.3.0-rc.1")
	for _, c := range []struct {
		name, found string
		fails       bool
		starts      bool
	}{
		{"nothing is known", "", false, false},
		{"a dependency has not", "old\nnew\n", true, false},
		{"Go has mended it", "old\n", false, true},
	} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, "found"), []byte(c.found), 0o600))
		_ = os.Remove(filepath.Join(dir, "calls"))
		out, err := run("scripts/rebuild")
		calls := must.Read(t, filepath.Join(dir, "calls"))
		starts := strings.Contains(calls, "workflow run release.yml --ref v1.2.11 --field notes=v1.2.10, built with go1.99")
		if (err != nil) != c.fails || starts != c.starts || !strings.HasPrefix(calls, "release download v1.2.10 --pattern leaderrun_1.2.10_linux_amd64.tar.gz") {
			t.Errorf("%s: %v, called %q, said %q", c.name, err, calls, out)
		}
		tags := git("-C", "../origin.git", "tag", "--format=%(objectname) %(refname:short)")
		want := ""
		if c.starts {
			want = strings.TrimSpace(git("rev-parse", "v1.2.10")) + " v1.2.11\n"
		}
		if tags != want {
			t.Errorf("%s: pushed %q, want %q", c.name, tags, want)
		}
	}
}
