//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// store is a store that can wake and call candidates.
type store interface {
	lease.Store
	lease.Pinger
}

// candidates are campaigns in this process for one key, through one store.
type candidates struct {
	store  store
	key    string
	ttl    time.Duration
	orders chan campaign.Received
	calls  *calls

	running sync.WaitGroup
	mu      sync.Mutex
	failed  error
}

// calls counts the candidates' calls of the store, except the first acquire and the first
// wait of each.
type calls struct {
	acquire, wait, renew atomic.Int64
	waiting              atomic.Int64 // calls that wait now

	mu      sync.Mutex
	renewed map[string]time.Duration // when the last renewal was answered, by key
	took    []float64                // durations of renewals, in milliseconds
}

func (c *calls) noteRenewal(key string, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.renewed == nil {
		c.renewed = map[string]time.Duration{}
	}
	c.renewed[key] = clock()
	c.took = append(c.took, ms(took))
}

func (b *bench) newCandidates(key string, ttl time.Duration) (*candidates, error) {
	store, err := b.redis.open()
	if err != nil {
		return nil, err
	}
	return &candidates{store: store, key: key, ttl: ttl, orders: make(chan campaign.Received), calls: &calls{}}, nil
}

// join adds a candidate that stands by without a limit.
func (c *candidates) join(command *command) { c.joinFor(c.key, c.store, command) }

func (c *candidates) joinFor(key string, store store, command *command) {
	c.running.Go(func() {
		result := campaign.Run(context.Background(), campaign.Settings{
			Settings: elect.Settings{
				Timing: elect.NewTiming(c.ttl, c.ttl/3, time.Second), Retry: c.ttl / 6,
				Wait: elect.Forever, KillAfter: time.Second, LostGrace: time.Second, StopSignal: int(syscall.SIGTERM),
			},
			Now:       clock,
			Request:   lease.Request{Key: key, TTL: c.ttl, Meta: "{}"},
			NewHolder: newHolder,
			Signals:   c.orders,
		}, &counted{store: store, calls: c.calls}, command, ignore{})
		if result.Outcome != elect.Exited && result.Outcome != elect.Ordered {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.failed = fmt.Errorf("a candidate ended as %s: %w", result.Outcome, result.Err)
		}
	})
}

// lead adds a candidate whose command goes on until letGo, and returns once it leads.
func (c *candidates) lead(ended func(), letGo <-chan time.Time) error {
	leads := make(chan struct{})
	c.join(&command{started: func() { close(leads) }, ended: ended, over: func() <-chan time.Time { return letGo }})
	select {
	case <-leads:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("nobody led within %s", patience)
	}
}

func newHolder() lease.Holder { return lease.NewHolder("benchmark", os.Getpid()) }

// end orders all candidates to stop, and returns their errors.
func (c *candidates) end() error {
	over := make(chan struct{})
	go func() {
		c.running.Wait()
		close(over)
	}()
	for limit := time.After(patience); ; {
		select {
		case c.orders <- campaign.Received{Signal: int(syscall.SIGTERM), Order: true}:
		case <-over:
			return errors.Join(c.failed, c.store.Close())
		case <-limit:
			return fmt.Errorf("candidates did not end in %s", patience)
		}
	}
}

// command takes the place of a command in a campaign of this process. It lasts until it is
// over.
type command struct {
	started, ended func()
	over           func() <-chan time.Time
}

// briefly returns the end of a command that is just long enough for a newcomer to stand by.
func briefly() <-chan time.Time { return time.After(20 * time.Millisecond) }

func (c *command) Start(_, _ time.Duration, _ lease.Lease, report func(elect.Event)) {
	c.started()
	go func() {
		report(elect.Event{Kind: elect.Started})
		<-c.over()
		c.ended()
		report(elect.Event{Kind: elect.TreeGone})
	}()
}

func (*command) Extend(time.Duration) {}
func (*command) Signal(int)           {}
func (*command) SignalRest(int)       {}
func (*command) Kill()                {}
func (*command) Leave()               {}

type ignore struct{}

func (ignore) Observe(campaign.Transition) {}

// counted is one candidate's store, which counts its calls.
type counted struct {
	store
	calls         *calls
	asked, waited atomic.Bool
}

func (s *counted) Acquire(ctx context.Context, r lease.Request) (lease.Lease, error) {
	if s.asked.Swap(true) {
		s.calls.acquire.Add(1)
	}
	return s.store.Acquire(ctx, r)
}

func (s *counted) Wait(ctx context.Context, key string, atMost time.Duration) error {
	if s.waited.Swap(true) {
		s.calls.wait.Add(1)
	}
	s.calls.waiting.Add(1)
	defer s.calls.waiting.Add(-1)
	return s.store.Wait(ctx, key, atMost)
}

func (s *counted) Renew(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	s.calls.renew.Add(1)
	begin := clock()
	l, err := s.store.Renew(ctx, l)
	if err == nil {
		s.calls.noteRenewal(l.Key, clock()-begin)
	}
	return l, err
}
