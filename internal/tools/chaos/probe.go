//go:build linux

package main

import (
	"context"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// probe asks the store directly, without a proxy, who has the lease.
type probe struct {
	stop context.CancelFunc
	over chan struct{}

	mu    sync.Mutex
	token int64 // of the lease in the last answer, 0 if there was none
}

const lookEvery = 20 * time.Millisecond

func watch(s backend) *probe {
	store := open(s)
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
	return p
}

func (p *probe) close() { p.stop(); <-p.over }

func (p *probe) look(ctx context.Context, store lease.Admin) {
	ctx, cancel := context.WithTimeout(ctx, 10*lookEvery)
	defer cancel()
	status, err := store.Inspect(ctx, key)
	if err != nil { // because of a fault
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.token = 0
	if status.Why == lease.Held {
		p.token = status.Token
	}
}

// holds reports whether the lease in the last answer had this token.
func (p *probe) holds(token int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.token == token
}
