package network

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// A host that is gone has not closed its connections: only keep-alives notice it.
func TestHoldersConnectionsAreKeptAlive(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer l.Close()
	for name, ctx := range map[string]context.Context{"candidate": t.Context(), "holder": Holder(t.Context())} {
		c, err := Dialer(nil)(ctx, "tcp", l.Addr().String())
		must.Succeed(t, err)
		defer c.Close()
		if after := noticed(t, c.(*net.TCPConn)); name == "holder" && after != 3 || name != "holder" && after < 60 {
			t.Errorf("%s: a host that is gone is noticed after %d s", name, after)
		}
	}
}

// noticed returns after how many seconds the kernel notices that the host is gone.
func noticed(t *testing.T, c *net.TCPConn) int {
	t.Helper()
	raw, err := c.SyscallConn()
	must.Succeed(t, err)
	var idle, interval, probes int
	_ = raw.Control(func(fd uintptr) {
		idle, _ = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE)
		interval, _ = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL)
		probes, _ = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT)
	})
	return idle + interval*probes
}

// A candidate that is granted the lease keeps its connection, now with keep-alives.
func TestCandidatesConnectionBecomesAHolders(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	for _, s := range []*httptest.Server{plain, secure} {
		client := HTTP(nil, func(context.Context) (*tls.Config, error) { return &tls.Config{InsecureSkipVerify: true}, nil })
		var got httptrace.GotConnInfo
		ask := func(ctx context.Context) int {
			ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { got = i }})
			r, err := http.NewRequestWithContext(Call(ctx), http.MethodGet, s.URL, nil)
			must.Succeed(t, err)
			resp, err := client.Do(r)
			must.Succeed(t, err)
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if c, ok := got.Conn.(interface{ NetConn() net.Conn }); ok {
				return noticed(t, c.NetConn().(*net.TCPConn))
			}
			return noticed(t, got.Conn.(*net.TCPConn))
		}
		if after := ask(t.Context()); after < 60 || got.Reused {
			t.Errorf("%s: of a candidate: %d s, %+v", s.URL, after, got)
		}
		if after := ask(Holder(t.Context())); after != 3 || !got.Reused {
			t.Errorf("%s: of a holder: %d s, %+v", s.URL, after, got)
		}
		client.CloseIdleConnections()
	}
}
