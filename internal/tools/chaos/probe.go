//go:build linux

package main

import (
	"context"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// probe asks the store itself, past every proxy, who holds the lease.
type probe struct {
	stop context.CancelFunc
	over chan struct{}

	mu   sync.Mutex
	held map[int64]*holding
}

// holding is what the store has said about one token.
type holding struct {
	expiry time.Duration // as the last answer had it, not later than it is
	seen   time.Duration // the last answer that it is held
	over   time.Duration // the first answer after that one that it is not, 0 as long as there was none
}

const lookEvery = 20 * time.Millisecond

func watch(s backend) (*probe, error) {
	store, err := open(s)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &probe{stop: cancel, over: make(chan struct{}), held: map[int64]*holding{}}
	go func() {
		defer close(p.over)
		defer func() { _ = store.Close() }()
		for ctx.Err() == nil {
			p.look(ctx, store)
			time.Sleep(lookEvery)
		}
	}()
	return p, nil
}

func (p *probe) close() { p.stop(); <-p.over }

func (p *probe) look(ctx context.Context, store lease.Admin) {
	ctx, cancel := context.WithTimeout(ctx, 10*lookEvery)
	defer cancel()
	before := clock()
	status, err := store.Inspect(ctx, key)
	after := clock()
	if err != nil { // the store has a fault
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for token, h := range p.held {
		if h.over == 0 && (status.Why != lease.HeldLeader || token != status.Token) {
			h.over = after
		}
	}
	if status.Why == lease.HeldLeader {
		h := p.held[status.Token]
		if h == nil {
			h = &holding{}
			p.held[status.Token] = h
		}
		h.expiry, h.seen, h.over = before+status.Remaining, before, 0
	}
}

// holds reports whether the last answer said that the lease of a token is held.
func (p *probe) holds(token int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.held[token]
	return h != nil && h.over == 0
}

// of returns when the lease of a token ran out, 0 unless it did so by itself, and
// from when on it was over for certain.
func (p *probe) of(token int64) (ranOut, over time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.held[token]
	if h == nil {
		return 0, 0
	}
	if h.expiry-h.seen < 5*lookEvery && h.over >= h.expiry {
		ranOut = h.expiry
	}
	return ranOut, h.over
}
