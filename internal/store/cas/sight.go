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
	grant   identity
	granted time.Duration // since when the grant is as it is
	call    int64
	called  time.Duration // since when that is the last call
	// known is the last call of which the holder knows, and own its lease as it was
	// renewed last, if it is this process.
	known int64
	own   identity
}

// identity tells a grant, renewed so often, from every other. Server is there because a
// restored store can have the same numbers again.
type identity struct {
	token, beat int64
	server      string
}

// see remembers what a row shows for the first time. Answered says that the holder has
// just been granted the lease, or renewed it.
func (s *Store) see(r Row, answered bool) {
	s.sights.mu.Lock()
	defer s.sights.mu.Unlock()
	seen, ok := s.sights.of[r.Key]
	if g := (identity{r.Token, r.Beat, r.State.Server}); !ok || seen.grant != g {
		seen.grant, seen.granted = g, s.Now()
	}
	if !ok || seen.call != r.Call {
		seen.call, seen.called = r.Call, s.Now()
	}
	if answered {
		seen.known, seen.own = r.Call, seen.grant
	}
	s.sights.of[r.Key] = seen
}

// Instant is the time of what was read, as the server knows it that gave it, and this
// process.
func (s *Store) Instant(r Row) leasestate.Instant {
	wall := s.Wall(r.Date)
	now := leasestate.Instant{Boot: s.Boot, Up: wall, Wall: wall, Settle: s.Settle, Server: r.Server, Apart: s.Apart}
	s.sights.mu.Lock()
	defer s.sights.mu.Unlock()
	if seen, ok := s.sights.of[r.Key]; ok {
		now.Unrenewed = (s.Now() - seen.granted).Milliseconds()
		if r.Settling != nil {
			now.Settled = (s.Now() - seen.called).Milliseconds()
		}
	}
	return now
}

// calls reports whether the holder has been called since it heard of the store, or the
// store has gone back behind that, and perhaps granted the key to another.
func (s *Store) calls(r Row) bool {
	s.sights.mu.Lock()
	defer s.sights.mu.Unlock()
	seen := s.sights.of[r.Key]
	gone := seen.own.token > 0 && (r.Token != seen.own.token || r.Beat < seen.own.beat)
	return r.Call != seen.known || gone
}
