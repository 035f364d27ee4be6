package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A release is built anew if that makes it better, and only then.
func TestRebuild(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("scripts/rebuild")
	if err != nil {
		t.Fatal(err)
	}
	// The forge, the registry and the scanner: the release's program is "old", and what
	// the scanner finds is in the file that is named as the program is.
	for name, text := range map[string]string{
		"project/scripts/rebuild": string(text),
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
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name string, args ...string) (string, error) {
		c := exec.Command(name, args...)
		c.Dir = filepath.Join(dir, "project")
		c.Env = append(os.Environ(), "ROOT="+dir, "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "GIT_CONFIG_GLOBAL=/dev/null")
		out, err := c.CombinedOutput()
		return string(out), err
	}
	git := func(args ...string) {
		t.Helper()
		if out, err := run("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@localhost"}, args...)...); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	git("init", "--quiet")
	git("add", ".")
	git("commit", "--quiet", "--message", "a")
	if out, err := run("scripts/rebuild"); err != nil || out != "nothing is released yet\n" {
		t.Errorf("without a tag: %q, %v", out, err)
	}
	git("tag", "v1.2.3") // without a message, as release.yml takes it
	for _, c := range []struct {
		name, found string
		fails       bool
		starts      bool
	}{
		{"nothing is known", "", false, false},
		{"Go has mended it", "old\n", false, true},
		{"a dependency has not", "old\nnew\n", true, false},
	} {
		if err := os.WriteFile(filepath.Join(dir, "found"), []byte(c.found), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(filepath.Join(dir, "calls"))
		out, err := run("scripts/rebuild")
		calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
		starts := strings.Contains(string(calls), "workflow run release.yml --ref v1.2.3\n")
		if (err != nil) != c.fails || starts != c.starts || !strings.HasPrefix(string(calls), "release download v1.2.3 --pattern leaderrun_1.2.3_linux_amd64.tar.gz") {
			t.Errorf("%s: %v, called %q, said %q", c.name, err, calls, out)
		}
	}
}
