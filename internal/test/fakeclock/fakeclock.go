// Package fakeclock gives a program its own wall clock, which can be changed while it runs.
// It needs the program faketime.
package fakeclock

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Set writes a clock to a file, in the form of faketime(1), such as "-1h". The file is
// readable by all users and replaced atomically.
func Set(file, clock string) error {
	half := file + ".new"
	if err := os.WriteFile(half, []byte(clock+"\n"), 0o644); err != nil { //nolint:gosec // the server may be another user
		return err
	}
	return os.Rename(half, file)
}

// Env returns the environment that makes a process take its wall clock from a file. The
// program faketime does the same, but it would be the parent of the process and get its
// signals.
func Env(file string) []string {
	const preload = "LD_PRELOAD="
	env, _ := exec.Command("faketime", "-m", "-f", "+0", "env").Output() // an error shows as a clock that is not set
	var library string
	for line := range strings.Lines(string(env)) {
		if value, ok := strings.CutPrefix(line, preload); ok {
			library = strings.TrimSpace(value)
		}
	}
	return []string{
		// libc comes second so that its allocator serves the process: jemalloc and
		// libfaketime each need the other to be ready first.
		preload + library + " libc.so.6",
		"FAKETIME_TIMESTAMP_FILE=" + file,
		"FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1", // timers, such as the cron of Redis
		"TZ=UTC",
	}
}

// Forget removes what libfaketime leaves behind if its process is killed. It would block
// the next process with the same id.
func Forget(pid int) {
	_ = os.Remove(fmt.Sprintf("/dev/shm/faketime_shm_%d", pid))
	_ = os.Remove(fmt.Sprintf("/dev/shm/sem.faketime_sem_%d", pid))
}
