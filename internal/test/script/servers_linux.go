package script

import (
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/test/faultnet"
)

// dieWithParent makes a server end with the test process, even if that is killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// awaitStop waits until all threads of a child have stopped: on a busy machine a server could
// still answer a call meanwhile.
func awaitStop(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// FreePort returns a port of the test's host that the kernel gives to nobody else until the end of
// the test, even while its server is down. A bound socket that does not listen reserves it.
// Servers can use it all the same, since they ask for its number with SO_REUSEADDR.
func FreePort(t testing.TB) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(os.NewSyscallError("socket", err))
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		t.Fatal(os.NewSyscallError("setsockopt", err))
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: netip.MustParseAddr(hostOf(t)).As4()}); err != nil {
		t.Fatal(os.NewSyscallError("bind", err))
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(os.NewSyscallError("getsockname", err))
	}
	return name.(*unix.SockaddrInet4).Port
}

// StartRedisOn is StartRedis on another host, at an address of that host.
func StartRedisOn(t testing.TB, host *faultnet.Host, addr string) *RedisServer {
	t.Helper()
	const port = 6379 // free: nobody else uses the host
	s := &RedisServer{process: redisProcess(t), Port: port, Addr: net.JoinHostPort(addr, strconv.Itoa(port))}
	s.command = host.Command
	s.args = append(basics(t, strconv.Itoa(port), t.TempDir()), "--bind", addr)
	t.Cleanup(s.Kill)
	s.mustStart()
	return s
}
