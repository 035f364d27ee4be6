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
		for class, want := range map[string]int{"leads": 3, "fault": 2, "ttl": 2} { // and one of each in the legend
			if n := strings.Count(string(text), `class="`+class+`"`); n != want+1 {
				t.Errorf("%s shows %q %d times, want %d", name, class, n, want+1)
			}
		}
	}
}
