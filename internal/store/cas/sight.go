package cas

import (
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
)

// sights are what this process has seen of keys, by its own clock.
type sights struct {
	mu sync.Mutex
	of map[string]sight
}

type sight struct {
	grant      identity
	grantSince time.Duration // since when the grant is as it is
	called     int64         // the last call
	callSince  time.Duration // since when that is the last one
	// If this process is the holder: own is its lease as it was at its last renewal, and
	// ownCalled the last call then.
	own       identity
	ownCalled int64
}

// identity is of a grant after so many renewals, and of no other. Server is there because
// a restored store can have the same numbers again.
type identity struct {
	token, renewed int64
	server         string
}

func (r Row) identity() identity { return identity{r.Token, r.Renewed, r.State.Server} }

// see notes since when a row has its present grant, and its present call.
func (s *Store) see(r Row) {
	s.sights.mu.Lock()
	defer s.sights.mu.Unlock()
	seen, ok := s.sights.of[r.Key]
	if !ok || seen.grant != r.identity() {
		seen.grant, seen.grantSince = r.identity(), s.Now()
	}
	if !ok || seen.called != r.Called {
		seen.called, seen.callSince = r.Called, s.Now()
	}
	s.sights.of[r.Key] = seen
}

// seeOwn notes a row that has just granted this process the lease, or renewed it.
func (s *Store) seeOwn(r Row) {
	s.sights.mu.Lock()
	defer s.sights.mu.Unlock()
	seen := s.sights.of[r.Key]
	seen.own, seen.ownCalled = r.identity(), r.Called
	s.sights.of[r.Key] = seen
}

// Instant is the time of a row: that of the server that gave it, and for how long this
// process has seen its grant and its call unchanged.
func (s *Store) Instant(r Row) leasestate.Instant {
	wall := s.Wall(r.Date)
	now := leasestate.Instant{Boot: s.Boot, Up: wall, Wall: wall, Settle: s.Settle, Server: r.Server, Apart: s.Apart}
	s.sights.mu.Lock()
	defer s.sights.mu.Unlock()
	if seen, ok := s.sights.of[r.Key]; ok {
		now.Unrenewed = (s.Now() - seen.grantSince).Milliseconds()
		if r.Settling != nil {
			now.Settled = (s.Now() - seen.callSince).Milliseconds()
		}
	}
	return now
}

// renewal is this process's lease at its last renewal.
func (s *Store) renewal(key string) identity {
	s.sights.mu.Lock()
	defer s.sights.mu.Unlock()
	return s.sights.of[key].own
}

// calls reports whether the holder has been called since its last renewal, or the store
// has lost a renewal that it had answered before it was asked for this row: then it may
// have granted the key to another.
func (s *Store) calls(r Row, before identity) bool {
	s.sights.mu.Lock()
	defer s.sights.mu.Unlock()
	seen := s.sights.of[r.Key]
	return r.Called != seen.ownCalled || r.Token != seen.own.token || r.Renewed < before.renewed
}
