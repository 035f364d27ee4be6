package observe

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// InForeground reports whether f is this process's terminal, it has a size, and this process is in
// its foreground. A terminal without a size is one that nobody looks at, as of a container with
// tty: true to which nobody is attached.
func InForeground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	if err != nil || group != syscall.Getpgrp() {
		return false
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil && size.Col > 0
}

// ReaderGone waits until nobody can read what is written to f, because the other end of a pipe is
// closed. For a file it waits for ever. It returns false if it cannot tell.
func ReaderGone(f *os.File) bool {
	end := []unix.PollFd{{Fd: int32(f.Fd())}}
	for {
		if _, err := unix.Poll(end, -1); !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}
