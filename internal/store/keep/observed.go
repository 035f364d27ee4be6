package keep

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease/rules"
)

// observations are what this process has seen of each key, by its own clock.
type observations struct {
	mu sync.Mutex
	of map[string]observation
}

type observation struct {
	grant      identity
	grantSince time.Duration // since when this process sees this grant
	heard      bool          // the last request was answered
	called     int64         // the last call
	callSince  time.Duration // since when this process sees this call, with an answer to each request
	foreign    bool          // another program has the lease
	// If this process is the holder, own is its row after its last renewal, which was answered
	// at ownSince; nil if it is unknown.
	own      *Row
	ownSince time.Duration
	// renewal is own's identity. It stays if own is forgotten.
	renewal       identity
	renewalCalled int64
}

// identity tells a grant after one renewal from all others. A restored store can have the
// same numbers again, but on another server.
type identity struct {
	token, renewed int64
	server         string
}

func (r Row) identity() identity { return identity{r.Token, r.Renewed, r.Server} }

func (s *Store) update(key string, change func(o *observation, known bool)) {
	s.observed.mu.Lock()
	defer s.observed.mu.Unlock()
	o, known := s.observed.of[key]
	change(&o, known)
	s.observed.of[key] = o
}

// observe records since when a row has had its present grant and its present call. sent is when
// the request was sent that the row is an answer to. A called holder needs two requests, which
// take as long as this one if the server is slow: before that, which observe returns, the key does
// not begin to settle.
func (s *Store) observe(r Row, sent time.Duration) (slow time.Duration) {
	now := s.Now()
	slow = (2 * (now - sent)).Round(time.Millisecond)
	s.update(r.Key, func(o *observation, known bool) {
		if !known || o.grant != r.identity() {
			o.grant, o.grantSince = r.identity(), now
		}
		if !o.heard || o.called != r.Called {
			o.heard, o.called, o.callSince = true, r.Called, now+slow
		}
		o.foreign = r.Grant != nil && r.Grant.Foreign
	})
	return slow
}

// observeOwn records a row that has just granted this process the lease, or renewed it.
func (s *Store) observeOwn(r Row) {
	now := s.Now()
	s.update(r.Key, func(o *observation, _ bool) {
		o.own, o.ownSince, o.renewal, o.renewalCalled = &r, now, r.identity(), r.Called
	})
}

// forget makes the next change read the row of key.
func (s *Store) forget(key string) {
	s.update(key, func(o *observation, _ bool) { o.own = nil })
}

// unheard is forget for a request without an answer. The last call counts from the next answer on:
// meanwhile the called holder may have had no answer either.
func (s *Store) unheard(key string) {
	s.update(key, func(o *observation, _ bool) { o.own, o.heard = nil, false })
}

// remembered returns the row that a holder has written last, at the store's time of now by
// this process's clock. The time that a store keeps for the lease does not depend on it.
func (s *Store) remembered(c change) (r Row, known bool) {
	s.update(c.key, func(o *observation, _ bool) {
		known = s.Remembers && c.holder != "" && o.own != nil && o.own.Grant != nil && o.own.Grant.Holder == c.holder
		if known {
			r = *o.own
			ago := (s.Now() - o.ownSince).Milliseconds()
			r.Now.Up, r.Now.Wall, r.Now.Serving = r.Now.Up+ago, r.Now.Wall+ago, r.Now.Serving+ago
		}
	})
	return r, known
}

// instant returns the time at which a row was read, and how long this process has seen its
// grant and its call unchanged.
func (s *Store) instant(r Row) (now rules.Instant) {
	now = r.Now
	now.Here = s.Here()
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

// seen returns what this process has seen of key.
func (s *Store) seen(key string) observation {
	s.observed.mu.Lock()
	defer s.observed.mu.Unlock()
	return s.observed.of[key]
}

// isCalled reports whether the holder must renew now: it was called since its last renewal, or
// the row lacks a renewal that was answered before the row was read, which is before. Then the
// store has lost data and may have granted the key to another.
func (s *Store) isCalled(r Row, before identity) bool {
	seen := s.seen(r.Key)
	return r.Called != seen.renewalCalled || r.Token != seen.renewal.token || r.Renewed < before.renewed
}

// keys returns those of names that are keys, in order.
func keys(names []string, valid func(string) bool) []string {
	known := map[string]bool{}
	for _, name := range names {
		if valid(name) {
			known[name] = true
		}
	}
	return slices.AppendSeq([]string{}, slices.Values(slices.Sorted(maps.Keys(known))))
}
