package scripttest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// SetClock gives the server a clock of its own, in the words of faketime(1):
// "+3d" and "-1h" are distances from this host's clock, "+0 x1.005" runs half a
// percent fast from the server's start, and at "2030-01-02 03:04:05.6", which is
// UTC, it stands still. Expiries follow, as they do after a real change.
//
// The first call restarts the server, empty. Later ones change the clock of the
// running server, which keeps what it holds. Without the program faketime the
// test is skipped; where CI is set it fails.
func (s *RedisServer) SetClock(clock string) {
	s.t.Helper()
	fresh := s.clock == ""
	if fresh {
		need(s.t, "faketime")
		s.clock = filepath.Join(s.t.TempDir(), "clock")
	}
	// The server reads the file whenever it looks at its clock: never half a line.
	half := s.clock + ".new"
	if err := os.WriteFile(half, []byte(clock+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(half, s.clock); err != nil {
		s.t.Fatal(err)
	}
	if fresh {
		s.env = fakeClock(s.clock)
		s.Restart()
	}
}

// fakeClock returns what makes a process take its wall clock from a file. The
// program faketime does the same, but it stands between us and the server: a
// signal would hit the wrong one.
func fakeClock(file string) []string {
	const shown = "LD_PRELOAD="
	env, _ := exec.Command("faketime", "-m", "-f", "+0", "env").Output() // an error shows as a clock that is not set
	var library string
	for line := range strings.Lines(string(env)) {
		if value, ok := strings.CutPrefix(line, shown); ok {
			library = strings.TrimSpace(value)
		}
	}
	return []string{
		// libc comes second so that its allocator serves the server: jemalloc and
		// libfaketime each need the other to be ready first.
		shown + library + " libc.so.6",
		"FAKETIME_TIMESTAMP_FILE=" + file,
		"FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1", // timers of the server, such as its cron
		"TZ=UTC",
	}
}

// forgetClock removes what libfaketime leaves behind in a process that is
// killed. It would stop the next one with the same process id.
func forgetClock(pid int) {
	_ = os.Remove(fmt.Sprintf("/dev/shm/faketime_shm_%d", pid))
	_ = os.Remove(fmt.Sprintf("/dev/shm/sem.faketime_sem_%d", pid))
}
