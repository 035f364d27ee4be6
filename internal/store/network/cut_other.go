//go:build !linux

package network

import (
	"errors"
	"syscall"
)

// hungUp reports whether the other side will send no more, and all is read.
func hungUp(fd int) bool {
	n, _, err := syscall.Recvfrom(fd, make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return n <= 0 && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
}
