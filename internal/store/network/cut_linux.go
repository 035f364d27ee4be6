package network

import "golang.org/x/sys/unix"

// hungUp reports whether the other side will send no more, also where what it has sent
// before is still to be read: servers say why they close.
func hungUp(fd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}, 0)
	return n > 0 && err == nil
}
