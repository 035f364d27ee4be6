package network

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// host is a server that does not answer before backAt, and counts the dials.
type host struct {
	began, backAt time.Time
	fails         error

	mu       sync.Mutex
	attempts []time.Duration
	pending  int
	most     int
	open     int
}

func newHost(dark time.Duration) *host {
	return &host{began: time.Now(), backAt: time.Now().Add(dark)}
}

// dial is answered only if the host answers when it begins: no packet is repeated.
func (h *host) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	h.mu.Lock()
	h.attempts = append(h.attempts, time.Since(h.began))
	h.pending++
	h.most = max(h.most, h.pending)
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		h.pending--
		h.mu.Unlock()
	}()
	if time.Now().Before(h.backAt) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if h.fails != nil {
		return nil, h.fails
	}
	time.Sleep(time.Millisecond)
	h.mu.Lock()
	h.open++
	h.mu.Unlock()
	return &conn{host: h}, nil
}

type conn struct {
	net.Conn
	host *host
}

func (c *conn) Close() error {
	c.host.mu.Lock()
	defer c.host.mu.Unlock()
	c.host.open--
	return nil
}

func TestHolderIsAnsweredSoonAfterTheHostIsBack(t *testing.T) {
	for dark := time.Duration(0); dark < 5*time.Second; dark += 37 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(dark)
			ctx, cancel := context.WithTimeout(Holder(t.Context()), 6*time.Second)
			defer cancel()
			c, err := Dialer(h.dial)(ctx, "tcp", "store")
			if late := time.Since(h.began) - dark; err != nil || late > hedgeAfter+time.Millisecond {
				t.Errorf("dark for %s: answered %s after that, %v", dark, late, err)
			}
			synctest.Wait()
			if err == nil && (c.Close() != nil || h.open != 0 || h.pending != 0) {
				t.Errorf("dark for %s: %d connections are open, %d attempts go on", dark, h.open, h.pending)
			}
			if h.most > 8 {
				t.Errorf("%d attempts at the same time", h.most)
			}
		})
	}
}

// The kernel may end an attempt a moment before the attempt's context ends.
func TestHedgedDialLastsAsLongAsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kernel := func(ctx context.Context, _, _ string) (net.Conn, error) {
			deadline, _ := ctx.Deadline()
			select {
			case <-time.After(time.Until(deadline) - 1):
			case <-ctx.Done():
			}
			return nil, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(Holder(t.Context()), 5*time.Second)
		defer cancel()
		if _, err := Dialer(kernel)(ctx, "tcp", "store"); !IsTimeout(err) || time.Since(began) < 5*time.Second-1 {
			t.Errorf("given up after %s: %v", time.Since(began), err)
		}
	})
}

// If several attempts are answered, one connection stays open.
func TestLosersAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(0)
		slow := func(ctx context.Context, network, addr string) (net.Conn, error) {
			time.Sleep(time.Until(h.began.Add(time.Second))) // a SYN that is on its way, and does not end with ctx
			return h.dial(ctx, network, addr)
		}
		c, err := Dialer(slow)(Holder(t.Context()), "tcp", "store")
		must.Succeed(t, err)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(h.attempts) < 6 || h.open != 1 {
			t.Errorf("%d attempts, %d connections are open, want 1", len(h.attempts), h.open)
		}
		_ = c.Close()
	})
}

func TestAttempts(t *testing.T) {
	ms := time.Millisecond
	for name, c := range map[string]struct {
		ctx     func(context.Context) context.Context
		network string
		dark    time.Duration
		fails   error
		want    []time.Duration
		err     error
	}{
		"candidate":         {func(ctx context.Context) context.Context { return ctx }, "tcp", time.Hour, nil, []time.Duration{0}, context.DeadlineExceeded},
		"holder":            {Holder, "tcp", time.Hour, nil, []time.Duration{0, 150 * ms, 300 * ms, 450 * ms}, context.DeadlineExceeded},
		"holder, by socket": {Holder, "unix", time.Hour, nil, []time.Duration{0}, context.DeadlineExceeded},
		"holder, refused":   {Holder, "tcp", 0, syscall.ECONNREFUSED, []time.Duration{0}, syscall.ECONNREFUSED},
		"refused later on":  {Holder, "tcp", 200 * ms, syscall.ECONNREFUSED, []time.Duration{0, 150 * ms, 300 * ms}, syscall.ECONNREFUSED},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(c.dark)
				h.fails = c.fails
				ctx, cancel := context.WithTimeout(c.ctx(t.Context()), 500*ms)
				defer cancel()
				_, err := Dialer(h.dial)(ctx, c.network, "store")
				if !errors.Is(err, c.err) || !slices.Equal(h.attempts, c.want) {
					t.Errorf("attempts at %v, want %v; %v", h.attempts, c.want, err)
				}
			})
		})
	}
}

// A server that accepts a connection and never answers leaves no socket behind.
func TestHandshakeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := net.Pipe()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() {
			_, err := Secure(ctx, c, &tls.Config{}, "store:1")
			if !IsTimeout(err) {
				t.Errorf("the handshake ended with %v", err)
			}
		}()
		if _, err := io.Copy(io.Discard, server); err != nil || ctx.Err() == nil {
			t.Errorf("the connection ended with %v", err)
		}
	})
}
