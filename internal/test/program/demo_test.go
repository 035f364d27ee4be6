//go:build linux

package program

import (
	"os/exec"
	"strings"
	"testing"
)

func TestDemo(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "run", "./internal/tools/demo").CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "as promised\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
