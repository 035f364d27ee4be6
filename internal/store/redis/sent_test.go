package redis

import (
	"strings"
	"testing"
)

// The script that is sent has the same code in each line.
func TestSent(t *testing.T) {
	for name, script := range map[string]string{"acquire": acquireLua, "renew": renewLua, "release": releaseLua, "status": statusLua} {
		written, got := strings.Split(headLua+script, "\n"), strings.Split(sent(headLua+script), "\n")
		if len(got) != len(written) {
			t.Fatalf("%s: %d lines of %d", name, len(got), len(written))
		}
		for i, line := range written {
			code := strings.TrimSpace(line)
			if rest, ok := strings.CutPrefix(code, got[i]); !ok || rest != "" && !strings.HasPrefix(strings.TrimSpace(rest), "--") {
				t.Errorf("%s:%d: %q is sent for %q", name, i+1, got[i], line)
			}
			if strings.Count(got[i], "'")%2+strings.Count(got[i], `"`)%2 != 0 {
				t.Errorf("%s:%d: a string was cut: %q", name, i+1, got[i])
			}
		}
		// This leaves room for keys and arguments.
		if n := len(sent(headLua + script)); n > 13_000 {
			t.Errorf("%s: %d bytes do not fit into ten segments", name, n)
		}
	}
}
