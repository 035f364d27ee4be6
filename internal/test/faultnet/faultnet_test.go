package faultnet_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/faultnet"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// What the scripts do not show of the proxy: it passes the end of a stream on, and it can
// be slow.
func TestPassAndDelay(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer l.Close()
	go func() { // returns what it gets, and ends then
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.Copy(c, c)
		_ = c.Close()
	}()
	p, err := faultnet.Listen(l.Addr().String())
	must.Succeed(t, err)
	defer p.Close()
	conn, err := net.Dial("tcp", p.Addr())
	must.Succeed(t, err)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))

	const delay = 100 * time.Millisecond
	p.Delay(delay)
	sent := time.Now()
	text := strings.Repeat("x", 1<<10)
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, len(text))); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(sent); took < 2*delay {
		t.Errorf("the answer took %s, want at least the delay there and back, %s", took, 2*delay)
	}
	must.Succeed(t, conn.(*net.TCPConn).CloseWrite())
	if rest, err := io.ReadAll(conn); err != nil || len(rest) > 0 {
		t.Errorf("after the end of the request: %q, %v; want the end of the answer", rest, err)
	}
}
