package script

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// patience is how long a script waits for anything before it fails.
const patience = 60 * time.Second

// signalAll sends a signal to processes of the server.
func signalAll(sig syscall.Signal, pids ...int) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, sig) // a backend may have ended
	}
}

// Lives reports whether a process exists and is no zombie. Signal 0 cannot tell: if process 1
// does not reap, an orphan stays a zombie.
func Lives(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The name in parentheses may contain anything; the state follows the last parenthesis.
	_, rest, ok := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')'):]), " ")
	return ok && rest[0] != 'Z' && rest[0] != 'X'
}

// describe lists processes with their command lines, for messages.
func describe(pids []int) string {
	var b strings.Builder
	for _, pid := range pids {
		argv, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		fmt.Fprintf(&b, "  %d %s\n", pid, bytes.ReplaceAll(argv, []byte{0}, []byte{' '}))
	}
	return b.String()
}

// await waits until ok is true or patience is over, and reports whether it is true.
func await(ok func() bool) bool {
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if ok() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}
