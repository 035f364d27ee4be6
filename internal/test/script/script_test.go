//go:build linux

package script

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

func TestCommands(t *testing.T) {
	Run(t, "testdata/works", Redis)
	Run(t, "testdata/postgres", Postgres)
}

// A restarted server gets its port again. If the ports were free meanwhile, the many other
// listeners would almost certainly take one of them.
func TestPortsAreKept(t *testing.T) {
	kept := map[int]bool{}
	for range 64 {
		kept[FreePort(t)] = true
	}
	for range 5000 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must.Succeed(t, err)
		if port := l.Addr().(*net.TCPAddr).Port; kept[port] {
			t.Errorf("another listener was given %d", port)
		}
		_ = l.Close()
	}
	s := StartRedis(t)
	s.Restart()
}

// TestFailuresAreSeen runs this test binary on scripts with one error each, and all must
// fail: a harness that cannot fail proves nothing.
func TestFailuresAreSeen(t *testing.T) {
	want := map[string]string{
		"background": "alive at the end of the script",
		"lease":      "the store has files",
		"noise":      "more than a message and a hint",
		"nomessage":  "does not begin with the program's name",
		"orphan":     "alive at the end of the script",
		"password":   "shows a password",
		"ran":        "the command ran",
		"status":     "ended with 1, want 0",
		"survivor":   "left behind",
	}
	for name, message := range want {
		t.Run(name, func(t *testing.T) {
			again := exec.Command(os.Args[0], "-test.run=^TestBroken$/^"+name+"$")
			again.Env = append(os.Environ(), broken+"=1")
			out, err := again.CombinedOutput()
			if err == nil || !strings.Contains(string(out), message) {
				t.Errorf("want a failure with %q, got %v:\n%s", message, err, out)
			}
		})
	}
}

// broken is the variable that makes TestBroken run, which always fails.
const broken = "SCRIPTTEST_BROKEN"

func TestBroken(t *testing.T) {
	if os.Getenv(broken) == "" {
		return // only run by TestFailuresAreSeen
	}
	Run(t, "testdata/fails", File)
}
