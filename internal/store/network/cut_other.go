//go:build !linux

package network

import (
	"errors"
	"syscall"
)

// peerClosed reports whether the peer will send no more and all its data was read.
func peerClosed(fd int) bool {
	n, _, err := syscall.Recvfrom(fd, make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return n <= 0 && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
}
