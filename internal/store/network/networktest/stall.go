package networktest

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Stalls are the networks of tests that share a server, by the tests' names. Each can lose
// what its stores send.
type Stalls struct{ tests sync.Map }

func (s *Stalls) of(t *testing.T) *atomic.Bool {
	stalled, _ := s.tests.LoadOrStore(t.Name(), new(atomic.Bool))
	return stalled.(*atomic.Bool)
}

// Dialer returns the dialer of a test.
func (s *Stalls) Dialer(t *testing.T) func(ctx context.Context, network, addr string) (net.Conn, error) {
	stalled := s.of(t)
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return stallConn{c, stalled}, err
	}
}

// Stall makes a test's connections lose what is sent, until undo. It has the form that
// leasetest needs.
func (s *Stalls) Stall(t *testing.T, _ string) (undo func()) {
	stalled := s.of(t)
	stalled.Store(true)
	return func() { stalled.Store(false) }
}

type stallConn struct {
	net.Conn
	stalled *atomic.Bool
}

func (c stallConn) Write(p []byte) (int, error) {
	if c.stalled.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}
