package test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// The patches of scripts/mutants apply and each names an existing test. The script checks that the tests fail, which takes minutes.
func TestMutantsApply(t *testing.T) {
	patches, err := filepath.Glob("scripts/mutants.d/*.patch")
	if err != nil || len(patches) == 0 || len(patches) > 60 {
		t.Fatalf("%d patches (%v)", len(patches), err)
	}
	header := regexp.MustCompile(`^wrong: .+\npackage: (\S+)\ntest: \^(Test\w+)\$`)
	for _, patch := range patches {
		text := must.Read(t, patch)
		if out, err := exec.Command("git", "apply", "--check", patch).CombinedOutput(); err != nil {
			t.Errorf("%s does not apply:\n%s", patch, out)
		}
		names := header.FindStringSubmatch(text)
		if names == nil {
			t.Errorf("%s does not begin with the lines wrong, package and test", patch)
			continue
		}
		tests := ""
		files, _ := filepath.Glob(filepath.Join(names[1], "*_test.go")) // fails on a bad pattern only
		for _, file := range files {
			b := must.Read(t, file)
			tests += b
		}
		if !strings.Contains(tests, "\nfunc "+names[2]+"(t *testing.T)") {
			t.Errorf("%s: there is no %s in %s", patch, names[2], names[1])
		}
	}
}
