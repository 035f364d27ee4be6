//go:build !linux || !(amd64 || arm64)

package sender

import "syscall"

// Note does nothing here.
func Note(...syscall.Signal) {}

// Catch does nothing here.
func Catch(syscall.Signal) bool { return false }

// Of takes every signal for the kernel's: a terminal's signal must not reach the command
// twice.
func Of(syscall.Signal) (kernel, process bool, pid int) { return true, false, 0 }
