//go:build !linux

package script

import (
	"net"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

func dieWithParent() *syscall.SysProcAttr { return nil }

func awaitStop(int) {}

// FreePort returns a port that is free now.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
