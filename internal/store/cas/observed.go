package cas

import (
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
)

// observations are what this process has seen of each key, by its own clock.
type observations struct {
	mu sync.Mutex
	of map[string]observation
}

type observation struct {
	grant      identity
	grantSince time.Duration // since when this process sees this grant
	called     int64         // the last call
	callSince  time.Duration // since when this process sees this call
	// If this process is the holder, own is the grant at its last renewal, and ownCalled
	// the last call at that time.
	own       identity
	ownCalled int64
}

// identity tells a grant after one renewal from all others. A restored store can have the
// same numbers again, but on another server.
type identity struct {
	token, renewed int64
	server         string
}

func (r Row) identity() identity { return identity{r.Token, r.Renewed, r.State.Server} }

// observe records since when a row has had its present grant and its present call.
func (s *Store) observe(r Row) {
	s.observed.mu.Lock()
	defer s.observed.mu.Unlock()
	seen, ok := s.observed.of[r.Key]
	if !ok || seen.grant != r.identity() {
		seen.grant, seen.grantSince = r.identity(), s.Now()
	}
	if !ok || seen.called != r.Called {
		seen.called, seen.callSince = r.Called, s.Now()
	}
	s.observed.of[r.Key] = seen
}

// observeOwn records a row that has just granted this process the lease, or renewed it.
func (s *Store) observeOwn(r Row) {
	s.observed.mu.Lock()
	defer s.observed.mu.Unlock()
	seen := s.observed.of[r.Key]
	seen.own, seen.ownCalled = r.identity(), r.Called
	s.observed.of[r.Key] = seen
}

// Instant returns the time at which a row was read, by its server's clock, and how long
// this process has seen its grant and its call unchanged.
func (s *Store) Instant(r Row) leasestate.Instant {
	wall := s.Wall(r.Date)
	now := leasestate.Instant{Boot: s.Boot, Up: wall, Wall: wall, Settle: s.Settle, Server: r.Server, Apart: s.Apart}
	s.observed.mu.Lock()
	defer s.observed.mu.Unlock()
	if seen, ok := s.observed.of[r.Key]; ok {
		now.Unrenewed = (s.Now() - seen.grantSince).Milliseconds()
		if r.Settling != nil {
			now.Settled = (s.Now() - seen.callSince).Milliseconds()
		}
	}
	return now
}

// renewal returns this process's lease at its last renewal.
func (s *Store) renewal(key string) identity {
	s.observed.mu.Lock()
	defer s.observed.mu.Unlock()
	return s.observed.of[key].own
}

// isCalled reports whether the holder must renew now: it was called since its last renewal,
// or the row lacks a renewal that was answered before the row was read. Then the store has
// lost data and may have granted the key to another.
func (s *Store) isCalled(r Row, before identity) bool {
	s.observed.mu.Lock()
	defer s.observed.mu.Unlock()
	seen := s.observed.of[r.Key]
	return r.Called != seen.ownCalled || r.Token != seen.own.token || r.Renewed < before.renewed
}
