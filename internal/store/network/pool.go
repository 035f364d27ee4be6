package network

import (
	"errors"
	"net"
	"slices"
	"sync"
	"syscall"
)

// ErrClosed says that a store was closed before the call.
var ErrClosed = errors.New("the store is closed")

// Pool hands out connections, each to one call at a time. So a renewal never waits until a
// standby's wait on the same store ends. Several goroutines may use it.
type Pool[C any] struct {
	Slots Slots

	mu     sync.Mutex
	idle   []C // the last one used is taken first
	closed bool
	quit   func(C)
	isCut  func(C) bool
}

// NewPool returns a pool that closes idle connections by quit. It hands out none for which
// isCut is true: servers and proxies cut connections that are idle for long.
func NewPool[C any](quit func(C), isCut func(C) bool) *Pool[C] {
	return &Pool[C]{quit: quit, isCut: isCut}
}

// Take returns an idle connection, or a new one from open.
func (p *Pool[C]) Take(open func() (C, error)) (c C, err error) {
	c, found, err := p.TakeIdle(func(C) bool { return true })
	if found || err != nil {
		return c, err
	}
	if c, err = open(); err == nil {
		p.Slots.Admitted()
	}
	return c, err
}

// TakeIdle returns the idle connection that fits and was used last.
func (p *Pool[C]) TakeIdle(fits func(C) bool) (c C, found bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return c, false, ErrClosed
	}
	for i, c := range slices.Backward(p.idle) {
		if !fits(c) {
			continue
		}
		p.idle = slices.Delete(p.idle, i, i+1)
		if !p.isCut(c) {
			return c, true, nil
		}
		p.quit(c)
	}
	return c, false, nil
}

// Drop closes the idle connections that fit.
func (p *Pool[C]) Drop(fits func(C) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = slices.DeleteFunc(p.idle, func(c C) bool {
		if fits(c) {
			p.quit(c)
			return true
		}
		return false
	})
}

// IsCut reports whether the peer has closed a connection, below TLS if it has that. It never blocks,
// not even during a Read by another goroutine, and consumes no data.
func IsCut(c net.Conn) (cut bool) {
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secure.NetConn()
	}
	kernel, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := kernel.SyscallConn()
	if err != nil {
		return true
	}
	// raw.Read would wait for a client that reads in the background, as pgconn does.
	err = raw.Control(func(fd uintptr) { cut = peerClosed(int(fd)) })
	return cut || err != nil
}

// Put keeps a connection for the next call.
func (p *Pool[C]) Put(c C) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		p.quit(c)
		return
	}
	p.idle = append(p.idle, c)
}

// Yield closes the connection that was used last, if the server has too few.
func (p *Pool[C]) Yield() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(p.idle) - 1; last >= 0 && p.Slots.Scarce() {
		p.quit(p.idle[last])
		p.idle = p.idle[:last]
	}
}

// Idle returns the idle connections.
func (p *Pool[C]) Idle() []C {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.idle)
}

// Close closes all idle connections, and the others once they are put back.
func (p *Pool[C]) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		p.quit(c)
	}
	p.idle = nil
}
