// Package networktest has the tests that networked stores share, servers that fail, and
// connections that are counted. Only tests may import it.
package networktest

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/store/network"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// Wire counts what goes over a store's connections. Several goroutines may use it.
type Wire struct {
	mu        sync.Mutex
	used      int
	trips     int
	receiving bool
	out       bytes.Buffer
}

// Dial opens a connection that counts.
func (w *Wire) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	w.receiving = true
	w.mu.Unlock()
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	return &wireConn{Conn: c, w: w}, err
}

// Used returns the number of connections on which something was sent. On a busy machine a
// hedged dial opens more.
func (w *Wire) Used() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used
}

// Trips returns the number of round trips, without TCP's handshake: each begins when
// something is sent after something was received.
func (w *Wire) Trips() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trips
}

// Sent returns all that was sent.
func (w *Wire) Sent() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.String()
}

// Answered reports whether anything was received since something was last sent.
func (w *Wire) Answered() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.receiving
}

type wireConn struct {
	net.Conn
	w    *Wire
	used bool
}

func (c *wireConn) Write(p []byte) (int, error) {
	c.w.mu.Lock()
	if !c.used {
		c.used = true
		c.w.used++
	}
	if c.w.receiving {
		c.w.trips++
		c.w.receiving = false
	}
	c.w.out.Write(p)
	c.w.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *wireConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.w.mu.Lock()
	c.w.receiving = true
	c.w.mu.Unlock()
	return n, err
}

// Answering starts a server that sends the next answer after each piece of data, and closes
// the connection after the last answer or at an empty one. It returns the address.
func Answering(t *testing.T, answers ...string) string {
	return Serve(t, func(c net.Conn) {
		buf := make([]byte, 64<<10)
		for _, text := range answers {
			if _, err := c.Read(buf); err != nil || text == "" {
				return
			}
			_, _ = c.Write([]byte(text))
		}
	})
}

// Serve runs a server on loopback until the test ends, and returns its address. Each
// connection is served in its own goroutine, and then closed.
func Serve(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return l.Addr().String()
}

// NeverAnswers returns an address that accepts connections and never reads from them.
func NeverAnswers(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String() // the kernel accepts
}

// PacketsVanish returns an address where the kernel drops every SYN: a listener with a
// full queue.
func PacketsVanish(t *testing.T) string {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	must.Succeed(t, errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)))
	name, err := syscall.Getsockname(fd)
	must.Succeed(t, err)
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(name.(*syscall.SockaddrInet4).Port))
	for range 16 {
		c, err := net.DialTimeout("tcp", addr, 200*time.Millisecond)
		if network.IsTimeout(err) {
			return addr
		}
		must.Succeed(t, err)
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Fatal("the queue of the listener does not fill")
	return ""
}
