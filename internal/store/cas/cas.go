// Package cas makes a [lease.Store] of a store that only keeps one state per key. It
// follows the rules of package leasestate. [Verbs] is for stores that can change a state as
// a whole, [Table] for a database with a clock. [Store] is for stores without a common
// clock, which can only replace a value if it is still the one that was read.
//
// Promise of [Store]: the contract of [lease.Store]. A change is written only to the
// state that it was made for, so all changes of a key have one order. A write whose
// answer is lost may be applied later or twice. If the state is still as it was read, it is
// as if the verb had taken that long; otherwise the write changes nothing. The holder
// counts its lease from before its request. A verb may be repeated on another server; a
// change by an operator leaves its id in the state, so that it is made only once.
//
// Time: the Date of an answer has whole seconds and comes from the clock of the server that
// answered. So a lease counts as over only [Config].Apart after the expiry in its state.
// Before that the key is granted only to a candidate on whose own clock the lease was not
// renewed for its TTL; a standby sees that by following the key. If that clock stands still
// while the host sleeps, the candidate waits longer. Minimum holds, ticks and pauses are as
// exact as Date and the servers' clocks.
//
// Promise of [Table]: the contract of [lease.Store], by the clock of the database alone. Each
// verb reads the key's row and the clock, applies the rules, and writes the change on
// condition that the row's version is still the one that was read. If it is not, the verb
// begins again. So all changes of a key have one order, as if each verb had run alone. The
// clock goes on between read and write, but a lease that was over stays over. A lease
// runs from the clock as it was read, which is after its holder sent the request, and the
// holder counts from before the request. So however late a write arrives, the holder stops
// before the row says that the key is free.
//
// Not promised: a store that loses acknowledged writes can grant a key twice if it does not
// report another [Row].Server after the loss, or if the holder cannot be called.
//
// Only the stores and tests may import it.
package cas

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// Keeper reads and replaces the value of a key.
type Keeper interface {
	// Read returns the row of key, or one with a new state if there is none. A damaged row
	// is an error: to guess what it means could grant twice.
	Read(ctx context.Context, key string) (Row, error)
	// Swap writes the value of a row that was read. If somebody has changed the row since,
	// it writes nothing and returns the present row.
	Swap(ctx context.Context, r Row) (now Row, saved bool, err error)
}

// Row is the value of a key, as a keeper has read it.
type Row struct {
	Value
	// Kept is what the keeper needs to replace the row.
	Kept any
	// Server is that of [leasestate.Instant].
	Server string
	Date   time.Time // of the answer
}

// Value is a state and what else is written with it.
type Value struct {
	leasestate.State
	Changed int64 `json:"changed"` // when, in ms of wall time
	// Renewed and Called are the times, in ms, of the last grant or renewal and of the last
	// call of the holder. No two are equal (see nextStamp), so they may be some ms ahead.
	Renewed int64 `json:"renewed"`
	Called  int64 `json:"called"`
	// ChangeID is the id of the last change that had one, see [Change].
	ChangeID string `json:"change_id,omitempty"`
}

// New returns the value of a key that nobody has asked for.
func New(key string) Value { return Value{State: leasestate.New(key)} }

// Config is what a store provides.
type Config struct {
	// Do runs a call on a keeper, and again on another one if the first gave no answer: a
	// write on the first one may then have been made, or be made later. It returns errors as
	// *lease.StoreError.
	Do func(ctx context.Context, op string, call func(context.Context, Keeper) error) error
	// Follow calls enough with the key's present row, and again after each change, until it
	// returns true.
	Follow func(ctx context.Context, op, key string, enough func(Row) bool) error
	// Boot is that of the store's grants. The servers' clocks go on during a restart, so
	// it is always the same.
	Boot string
	// Settle and Apart are those of [leasestate.Instant], in ms.
	Settle, Apart int64
	// Now is the clock of this process, and Wall returns the Date of an answer in ms. Only
	// tests set them.
	Now  func() time.Duration
	Wall func(date time.Time) int64
}

// Store is a [lease.Store] without Close and a [lease.Admin] without Keys. Several
// goroutines may use it at a time.
type Store struct {
	Verbs
	Config
	observed observations
}

// NewStore returns a store.
func NewStore(c Config) *Store {
	began := time.Now() //nolint:forbidigo // a clock that stands still in between makes this process wait longer, no more
	if c.Now == nil {
		c.Now = func() time.Duration { return time.Since(began) } //nolint:forbidigo // the same
	}
	if c.Wall == nil {
		c.Wall = time.Time.UnixMilli
	}
	s := &Store{Config: c, observed: observations{of: map[string]observation{}}}
	s.Verbs = s.change
	return s
}

// Parse reads a value as [json.Marshal] writes it. A damaged one is an error: see Keeper.
func (s *Store) Parse(key string, text []byte) (v Value, err error) {
	if json.Unmarshal(text, &v) != nil {
		return v, errors.New("it is damaged") // the error itself speaks of Go's types
	}
	if err := v.Check(key); err != nil {
		return v, err
	}
	if v.Grant != nil && v.Grant.Boot != s.Boot {
		return v, errors.New("its grant is not one of this store")
	}
	return v, nil
}

// change applies a change to the key's row, and begins again if others have changed the row
// in between.
//
// If the answer to a write is lost, the id in the row shows whether a change with an id was
// made. The change's own id: it was made. The id from before: it was not, and is made now; the
// row is written even if nothing else changes, so that the first write comes too late.
// Another id: nobody knows, since another operator has changed the key meanwhile.
func (s *Store) change(ctx context.Context, c Change) (l lease.Lease, answer error) {
	before, unanswered := "", false
	err := s.Do(ctx, c.Op, func(ctx context.Context, k Keeper) error {
		r, err := k.Read(ctx, c.Key)
		for saved := false; err == nil && !saved; {
			switch {
			case !unanswered:
				before = r.ChangeID
			case r.ChangeID == c.ID:
				return nil
			case r.ChangeID != before:
				answer = &lease.StoreError{Op: c.Op, Err: errUnknown}
				return nil
			}
			s.observe(r)
			now := s.Instant(r)
			did, errJSON := c.applyTo(&r.State, now)
			l, answer = did.lease, did.answer
			if errJSON != nil || !did.changed && !unanswered {
				return errJSON
			}
			r.Changed = now.Wall
			if c.ID != "" {
				r.ChangeID = c.ID
			}
			if did.Renewed {
				r.Renewed = nextStamp(r.Renewed, now)
			}
			if did.Calls {
				r.Called = nextStamp(r.Called, now)
			}
			written := r
			if r, saved, err = k.Swap(ctx, r); saved {
				s.observe(written)
				if did.Renewed {
					s.observeOwn(written)
				}
			}
			unanswered = unanswered || err != nil && c.ID != ""
		}
		return err
	})
	if err != nil {
		return lease.Lease{}, err
	}
	return l, answer
}

// nextStamp returns the next Renewed or Called. It differs from the last one, and from all
// that the store had before it came back with older data.
func nextStamp(last int64, now leasestate.Instant) int64 { return max(last+1, now.Wall) }

var errUnknown = errors.New("it was done or not: its answer is lost, and another operator has changed the key since")

// Inspect implements [lease.Admin].
func (s *Store) Inspect(ctx context.Context, key string) (status lease.Status, err error) {
	err = s.Do(ctx, "status", func(ctx context.Context, k Keeper) error {
		r, err := k.Read(ctx, key)
		if err == nil {
			status = r.Status(s.Instant(r))
		}
		return err
	})
	return status, err
}

// Wait implements [lease.Store]. A release wakes all standbys. Renewals during the wait
// count for the next Acquire.
func (s *Store) Wait(ctx context.Context, key string, atMost time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	err := s.Follow(waiting, "wait", key, func(r Row) bool {
		s.observe(r)
		return r.Free(s.Instant(r))
	})
	if waiting.Err() != nil && ctx.Err() == nil {
		return nil
	}
	if IsPermanent(err) { // the next acquire reports what is wrong
		return lease.ErrNoWakeups
	}
	return err
}

// Listen implements [lease.Pinger].
func (s *Store) Listen(ctx context.Context, key string) error {
	before := s.renewal(key)
	err := s.Follow(network.Holder(ctx), "listen", key, func(r Row) bool { return s.isCalled(r, before) })
	if IsPermanent(err) {
		return lease.ErrNoWakeups
	}
	return err
}

// IsPermanent reports whether a store's error stays so until a person acts.
func IsPermanent(err error) bool {
	var failure *lease.StoreError
	return errors.As(err, &failure) && failure.Permanent
}
