package network

import (
	"context"
	"net"
	"syscall"
	"testing"
)

// The host of a connection may be gone without a word.
func TestHoldersConnectionsAreKeptAlive(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, ctx := range map[string]context.Context{"candidate": t.Context(), "holder": Holder(t.Context())} {
		c, err := Dialer(nil)(ctx, "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var idle, interval, probes int
		_ = raw.Control(func(fd uintptr) {
			idle, _ = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE)
			interval, _ = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL)
			probes, _ = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT)
		})
		if noticed := idle + interval*probes; name == "holder" && noticed != 3 || name != "holder" && noticed < 60 {
			t.Errorf("%s: a host that is gone is noticed after %d s", name, noticed)
		}
	}
}
