package network

import (
	"errors"
	"sync"
)

// Options say where the leases of a store are.
type Options struct {
	URL string
	// Prefix begins the names of all keys.
	Prefix string
	// Dialer opens connections; nil means TCP.
	Dialer Dial
}

// ErrClosed says that a store was closed before the call.
var ErrClosed = errors.New("the store is closed")

// Pool hands out connections, each to one call at a time. So a renewal never waits for a
// standby's wait on the same store. Several goroutines may use it.
type Pool[C any] struct {
	Slots Slots

	mu     sync.Mutex
	idle   []C // the last one used is taken first
	closed bool
	quit   func(C)
}

// NewPool makes one that ends its idle connections by quit.
func NewPool[C any](quit func(C)) *Pool[C] { return &Pool[C]{quit: quit} }

// Take returns a connection that nobody uses: an idle one, or what open makes.
func (p *Pool[C]) Take(open func() (C, error)) (c C, err error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return c, ErrClosed
	}
	if last := len(p.idle) - 1; last >= 0 {
		c, p.idle = p.idle[last], p.idle[:last]
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	if c, err = open(); err == nil {
		p.Slots.Admitted()
	}
	return c, err
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

// Yield ends the connection that was used last, if the server has too few.
func (p *Pool[C]) Yield() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(p.idle) - 1; last >= 0 && p.Slots.Scarce() {
		p.quit(p.idle[last])
		p.idle = p.idle[:last]
	}
}

// Idle returns how many connections nobody uses.
func (p *Pool[C]) Idle() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}

// Close ends all connections that nobody uses, and the others once they are put back.
func (p *Pool[C]) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		p.quit(c)
	}
	p.idle = nil
}
