//go:build linux

package program

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestDemo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "demo.svg")
	out, err := exec.Command("go", "run", "./internal/tools/demo", "-picture", file).CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "as promised\n") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, name := range []string{file, "docs/demo.svg"} {
		text, err := os.ReadFile(name)
		if err != nil || xml.Unmarshal(text, new(struct{})) != nil {
			t.Fatalf("%s is no picture: %v", name, err)
		}
		if leaders, faults := strings.Count(string(text), `class="leads"`), strings.Count(string(text), `class="fault"`); leaders != 3 || faults != 2 {
			t.Errorf("%s shows %d leaders and %d faults", name, leaders, faults)
		}
	}
}
