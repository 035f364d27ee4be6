//go:build !linux

package runner

import (
	"os"
	"syscall"
)

// self is the path of this program, if the system knows it.
var self = func() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}()

// Limits returns nil: how much leaderrun needs was found out on Linux only.
func Limits() error { return nil }

// WallClockSet returns nil: this system cannot tell.
func WallClockSet() <-chan struct{} { return nil }

// killLeftBehind kills the command's process group, or only the command if the group is the
// terminal's. Nothing is inherited here.
func (h *guarded) killLeftBehind() {
	if h.pid == 0 {
		return
	}
	if group, err := syscall.Getpgid(h.pid); err == nil && group == h.pid {
		_ = syscall.Kill(-h.pid, syscall.SIGKILL)
	}
	_ = syscall.Kill(h.pid, syscall.SIGKILL)
}
