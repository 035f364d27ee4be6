//go:build !linux

package runner

import "syscall"

// WallClockSet is nil: this system does not say so.
func WallClockSet() <-chan struct{} { return nil }

// killLeftBehind kills the command's process group: nothing is inherited here.
// With a terminal the group is the caller's, and only the command is killed.
func (h *held) killLeftBehind() {
	if h.pid == 0 {
		return
	}
	if group, err := syscall.Getpgid(h.pid); err == nil && group == h.pid {
		_ = syscall.Kill(-h.pid, syscall.SIGKILL)
	}
	_ = syscall.Kill(h.pid, syscall.SIGKILL)
}
