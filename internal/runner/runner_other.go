//go:build !linux

package runner

import "syscall"

// WallClockSet returns nil: this system cannot tell.
func WallClockSet() <-chan struct{} { return nil }

// killLeftBehind kills the command's process group, or only the command if the group is the
// terminal's. Nothing is inherited here.
func (h *held) killLeftBehind() {
	if h.pid == 0 {
		return
	}
	if group, err := syscall.Getpgid(h.pid); err == nil && group == h.pid {
		_ = syscall.Kill(-h.pid, syscall.SIGKILL)
	}
	_ = syscall.Kill(h.pid, syscall.SIGKILL)
}
