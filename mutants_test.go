package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The patches of scripts/mutants apply, each names a test that exists, and
// docs/proof.md lists them all. Whether the tests turn red takes minutes: that is
// the script's work.
func TestMutantsApply(t *testing.T) {
	patches, err := filepath.Glob("scripts/mutants.d/*.patch")
	if err != nil || len(patches) < 20 {
		t.Fatalf("%d patches (%v)", len(patches), err)
	}
	page, err := os.ReadFile("docs/proof.md")
	if err != nil {
		t.Fatal(err)
	}
	table, err := exec.Command("scripts/mutants", "-t").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if !strings.Contains(string(page), line) {
			t.Errorf("docs/proof.md lacks a line of scripts/mutants -t:\n%s", line)
		}
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
