// Package slots makes of one key as many leases as it has slots, so that so many candidates lead at
// a time. Each slot is a key of its own, with the same promises and a token of its own; what this
// package adds is only which of them a candidate asks for. So it grants nothing that a store does
// not grant, and needs no rule.
//
// A candidate asks for one slot after the other until one is granted; a pause of the first, which has
// the key itself, is one of all. A standby waits for all of them, and passes on the wake-ups that it
// does not use.
package slots

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// Most is the largest number of slots: each attempt may ask for all of them.
const Most = 100

// Key returns the key of a slot, counted from 1. The first is the key itself, so a run without slots
// has that one.
func Key(key string, slot int) string {
	if slot == 1 {
		return key
	}
	return key + "/slot-" + strconv.Itoa(slot)
}

// Of returns the slot of key to which the key of a lease belongs, 0 if to none.
func Of(key, leased string, slots int) int {
	for slot := 1; slot <= slots; slot++ {
		if Key(key, slot) == leased {
			return slot
		}
	}
	return 0
}

// Store is a [lease.Store] for the candidates of one key with slots. It is for one campaign. Several goroutines may use it at a time.
type Store struct {
	lease.Store
	key   string
	slots int
	now   func() time.Duration

	mu   sync.Mutex
	seen []lease.Sight // of each slot
	// unknown is the slot whose answer is unknown, else the first. It is asked for first, so that a
	// grant whose answer was lost is found.
	unknown, woke, held int
}

// New returns a store for the candidates of key. now is a clock that goes on while the machine
// sleeps.
func New(store lease.Store, key string, slots int, now func() time.Duration) *Store {
	return &Store{Store: store, key: key, slots: slots, now: now, seen: make([]lease.Sight, slots)}
}

// Acquire implements [lease.Store]. If all slots are denied, the error is that of the slot which may
// become free first, or that of a pause of the key.
func (s *Store) Acquire(ctx context.Context, r lease.Request) (lease.Lease, error) {
	var soonest error
	var least lease.Condition
	first := s.start()
	for i := range s.slots {
		slot := (first + i) % s.slots
		r.Key, r.Seen = Key(s.key, slot+1), s.ask(slot)
		l, err := s.Store.Acquire(ctx, r)
		denial, denied := lease.ConditionOf(err)
		s.learn(slot, l, denial)
		if !denied {
			return l, err
		}
		if p := denial.Pause; slot == 0 && p != (lease.Pause{}) { // its leader may go on meanwhile
			soonest = &lease.PausedError{Condition: lease.Condition{Why: lease.Paused, Pause: p, Remaining: p.Left(denial.Tick), Tick: denial.Tick}}
			break
		}
		if soonest == nil || denial.Remaining > 0 && (least.Remaining == 0 || denial.Remaining < least.Remaining) {
			soonest, least = err, denial
		}
	}
	s.answered()
	return lease.Lease{}, soonest
}

func (s *Store) start() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unknown
}

// ask notes that the answer for a slot is unknown from now on.
func (s *Store) ask(slot int) lease.Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unknown = slot
	return s.seen[slot].At(s.now())
}

// learn notes the answer for a slot, a grant if the lease has a key.
func (s *Store) learn(slot int, l lease.Lease, denial lease.Condition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.Key != "" {
		s.held = slot
		s.seen[slot].Granted(l)
	}
	s.seen[slot].Denied(denial, s.now())
}

// answered notes that no answer is unknown.
func (s *Store) answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unknown = 0
}

// Wait implements [lease.Store]: it waits for all slots.
func (s *Store) Wait(ctx context.Context, _ string, atMost time.Duration) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	type end struct {
		slot int
		err  error
	}
	ends, began := make(chan end, s.slots), s.now()
	for slot := range s.slots {
		go func() { ends <- end{slot, s.Store.Wait(waiting, Key(s.key, slot+1), atMost)} }()
	}
	first := <-ends
	cancel()
	woken := first.err == nil && s.now()-began < atMost*9/10 // else all waits are over
	for range s.slots - 1 {
		if other := <-ends; other.err == nil && woken {
			_ = s.Store.Pass(ctx, Key(s.key, other.slot+1)) // if it gets lost, others wait for the end of the lease
		}
	}
	if woken {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.woke = first.slot
	}
	return first.err
}

// Pass implements [lease.Store]: it passes the last wake-up on.
func (s *Store) Pass(ctx context.Context, _ string) error {
	s.mu.Lock()
	key := Key(s.key, s.woke+1)
	s.mu.Unlock()
	return s.Store.Pass(ctx, key)
}

// Listen implements [lease.Store], for the slot that is held.
func (s *Store) Listen(ctx context.Context, _ string) error {
	s.mu.Lock()
	key := Key(s.key, s.held+1)
	s.mu.Unlock()
	return s.Store.Listen(ctx, key)
}
