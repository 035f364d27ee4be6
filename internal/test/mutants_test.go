package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The patches of scripts/mutants apply, each names an existing test, and docs/mutants.md
// lists them. The script checks that the tests fail, which takes minutes.
func TestMutantsApply(t *testing.T) {
	patches, err := filepath.Glob("scripts/mutants.d/*.patch")
	if err != nil || len(patches) < 20 {
		t.Fatalf("%d patches (%v)", len(patches), err)
	}
	page, err := os.ReadFile("docs/mutants.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := exec.Command("scripts/mutants", "-t").Output()
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != string(want) {
		t.Error("docs/mutants.md is not up to date; write it anew: scripts/mutants -t >docs/mutants.md")
	}
	header := regexp.MustCompile(`^wrong: .+\npackage: (\S+)\ntest: \^(Test\w+)\$`)
	for _, patch := range patches {
		text, err := os.ReadFile(patch)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("git", "apply", "--check", patch).CombinedOutput(); err != nil {
			t.Errorf("%s does not apply:\n%s", patch, out)
		}
		names := header.FindStringSubmatch(string(text))
		if names == nil {
			t.Errorf("%s does not begin with the lines wrong, package and test", patch)
			continue
		}
		tests := ""
		files, _ := filepath.Glob(filepath.Join(names[1], "*_test.go")) // fails on a bad pattern only
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tests += string(b)
		}
		if !strings.Contains(tests, "\nfunc "+names[2]+"(t *testing.T)") {
			t.Errorf("%s: there is no %s in %s", patch, names[2], names[1])
		}
	}
}
