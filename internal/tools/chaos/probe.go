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

	mu    sync.Mutex
	token int64 // whose lease is held by the last answer, 0 if none is
}

const lookEvery = 20 * time.Millisecond

func watch(s backend) (*probe, error) {
	store, err := open(s)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &probe{stop: cancel, over: make(chan struct{})}
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
	status, err := store.Inspect(ctx, key)
	if err != nil { // the store has a fault
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.token = 0
	if status.Why == lease.HeldLeader {
		p.token = status.Token
	}
}

// holds reports whether the last answer said that the lease of a token is held.
func (p *probe) holds(token int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.token == token
}
