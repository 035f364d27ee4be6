package network

import "golang.org/x/sys/unix"

// peerClosed reports whether the peer will send no more. Data that it sent before may still
// be unread: servers say why they close.
func peerClosed(fd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}, 0)
	return n > 0 && err == nil
}
