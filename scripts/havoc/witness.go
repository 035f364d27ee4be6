//go:build linux

package main

import (
	"context"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// witness asks the store itself, past every proxy, whose the lease is.
type witness struct {
	stop context.CancelFunc
	over chan struct{}

	mu   sync.Mutex
	held map[int64]*holding
}

// holding is what the store has told of one token.
type holding struct {
	expiry time.Duration // as the last answer had it, not later than it is
	seen   time.Duration // the last answer that it is held
	over   time.Duration // the first answer that it is not, 0 as long as there was none
}

const lookEvery = 20 * time.Millisecond

func watch(s *server) (*witness, error) {
	store, err := s.open()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &witness{stop: cancel, over: make(chan struct{}), held: map[int64]*holding{}}
	go func() {
		defer close(w.over)
		defer func() { _ = store.Close() }()
		for ctx.Err() == nil {
			w.look(ctx, store)
			time.Sleep(lookEvery)
		}
	}()
	return w, nil
}

func (w *witness) close() { w.stop(); <-w.over }

func (w *witness) look(ctx context.Context, store lease.Operator) {
	ctx, cancel := context.WithTimeout(ctx, 10*lookEvery)
	defer cancel()
	before := clock()
	status, err := store.Inspect(ctx, key)
	after := clock()
	if err != nil { // the store is being hurt
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for token, h := range w.held {
		if h.over == 0 && (status.Why != lease.HeldLeader || token != status.Token) {
			h.over = after
		}
	}
	if status.Why == lease.HeldLeader {
		h := w.held[status.Token]
		if h == nil {
			h = &holding{}
			w.held[status.Token] = h
		}
		h.expiry, h.seen = before+status.Remaining, before
	}
}

// of tells when the lease of a token ran out, 0 unless it did so by itself, and
// from when on it was over for certain.
func (w *witness) of(token int64) (ranOut, over time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.held[token]
	if h == nil {
		return 0, 0
	}
	if h.expiry-h.seen < 5*lookEvery && h.over >= h.expiry {
		ranOut = h.expiry
	}
	return ranOut, h.over
}
