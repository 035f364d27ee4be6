package script

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// dieWithParent lets no server outlive a test process that is killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// freePort returns a port of 127.0.0.1 that nobody else is given until the test is
// over, also while its server is down. A socket that is bound to it and does not
// listen keeps it: the kernel takes it for free only where it is asked for by its
// number and with SO_REUSEADDR, as servers do.
func freePort(t testing.TB) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(os.NewSyscallError("socket", err))
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		t.Fatal(os.NewSyscallError("setsockopt", err))
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(os.NewSyscallError("bind", err))
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(os.NewSyscallError("getsockname", err))
	}
	return name.(*unix.SockaddrInet4).Port
}
