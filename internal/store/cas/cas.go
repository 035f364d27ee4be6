// Package cas makes a [lease.Store] of a store that only keeps a state per key, by the
// rules of package leasestate: [Verbs] for one that can change a state as a whole in some
// way, [Table] for a database with a clock, and [Store] for one that has no more than a
// value that is replaced if it is still the one that was read, and no clock for all.
//
// Promise of [Store]: the contract of [lease.Store]. A change is written only to the
// state that it was made for, so all changes of a key have one order. A write whose
// answer is lost may be applied later or twice: it finds the state as it was read, and
// then it is as if the verb had taken that long, or it changes nothing. The holder
// counts from before its request. Its verbs may be repeated by another server; those of
// operators leave an id in the state, so that they are not.
//
// Time: the Date of an answer counts whole seconds, on the clock of the server that gave
// it. So an expiry that is written there is believed only after [Config].Apart more;
// before that only by a candidate whose own clock has seen the lease unrenewed for its
// TTL, which a standby does by following the key. That clock may stand still while the
// host sleeps: the candidate then waits longer. Minimum holds, ticks and pauses are as
// exact as Date and the servers' clocks.
//
// Promise of [Table]: the contract of [lease.Store], by no clock but the database's. Each
// verb reads the key's row and the clock; the rules say what becomes of it; and a change is
// written on condition that the row's version is still the one that was read. If it is not,
// the verb begins again. So all changes of a key have one order, as if each verb had run
// alone. What has passed on the clock by the time of the write can only make true what the
// rules found, that a lease is over. A lease runs from the clock as it was read before the
// write, which is after its holder began to ask, and the holder counts from there: however
// late a write arrives, the holder stops before the row says that the key is free.
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

// Keeper keeps one value per key.
type Keeper interface {
	// Read finds the row of key, or one with a new state. It never guesses what a damaged
	// one means: a guess could grant twice.
	Read(ctx context.Context, key string) (Row, error)
	// Swap writes the value of a row that was read, unless somebody has changed what is
	// there: then now is what is there.
	Swap(ctx context.Context, r Row) (now Row, saved bool, err error)
}

// Row is what a keeper has of a key, and when.
type Row struct {
	Value
	// Kept is what the keeper has to know to replace it.
	Kept any
	// Server names what has kept all that it acknowledged, see [leasestate.Instant].
	Server string
	Date   time.Time // of the answer
}

// Value is a state as it is kept, with what a state does not say itself.
type Value struct {
	leasestate.State
	Changed int64 `json:"changed"` // when, ms
	// Renewed is when the last grant or renewal was made, and Called when the holder was
	// last called, in ms. Each has a value of its own, so they may be some ms ahead.
	Renewed int64 `json:"renewed"`
	Called  int64 `json:"called"`
	// ChangeID is the id of the last change that had one, see [Change].
	ChangeID string `json:"change_id,omitempty"`
}

// New is the value of a key that nobody has asked for.
func New(key string) Value { return Value{State: leasestate.New(key)} }

// Config is what a store of this kind brings.
type Config struct {
	// Do runs a call on a keeper, and again on another one if the first gave no answer. An
	// error is returned as a *lease.StoreError. A write that the first one did not answer may
	// have been made, or be made later.
	Do func(ctx context.Context, op string, call func(context.Context, Keeper) error) error
	// Follow passes the key's row to enough, as it is now and after each change, until that
	// is true.
	Follow func(ctx context.Context, op, key string, enough func(Row) bool) error
	// Boot names the store in its grants. Servers' clocks go on over a restart, so there
	// is only one boot.
	Boot string
	// Settle and Apart are leasestate's, in ms.
	Settle, Apart int64
	// Now is a clock of this process; nil means the usual one. Wall is the Date of an answer
	// in ms; tests set it.
	Now  func() time.Duration
	Wall func(date time.Time) int64
}

// Store is a [lease.Store] on a keeper, but for Close, and a [lease.Admin], but for
// Keys. Several goroutines may use it at a time.
type Store struct {
	Verbs
	Config
	sights sights
}

// NewStore makes a store.
func NewStore(c Config) *Store {
	began := time.Now() //nolint:forbidigo // a clock that stands still in between makes this process wait longer, no more
	if c.Now == nil {
		c.Now = func() time.Duration { return time.Since(began) } //nolint:forbidigo // the same
	}
	if c.Wall == nil {
		c.Wall = time.Time.UnixMilli
	}
	s := &Store{Config: c, sights: sights{of: map[string]sight{}}}
	s.Verbs = s.change
	return s
}

// Parse reads a value as [json.Marshal] writes it. It never guesses: see Keeper.
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

// change applies a change to the key's row, again while others change the row in between.
//
// After a write without an answer the row shows what has become of a change that has an
// id. With that id in the row it was made. With the id from before it was not: it is made
// now, and the row is written even if that changes nothing else, so that the first write is
// too late. With another id it is unknown: an operator has changed the key since.
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
			s.see(r)
			now := s.Instant(r)
			did, errJSON := c.to(&r.State, now)
			l, answer = did.lease, did.answer
			if errJSON != nil || !did.changed && !unanswered {
				return errJSON
			}
			r.Changed = now.Wall
			if c.ID != "" {
				r.ChangeID = c.ID
			}
			if did.Renewed {
				r.Renewed = following(r.Renewed, now)
			}
			if did.Calls {
				r.Called = following(r.Called, now)
			}
			written := r
			if r, saved, err = k.Swap(ctx, r); saved {
				s.see(written)
				if did.Renewed {
					s.seeOwn(written)
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

// following is the next Renewed or Called: unlike the last one, and unlike those that the
// store had before it came back with older data.
func following(last int64, now leasestate.Instant) int64 { return max(last+1, now.Wall) }

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

// Wait implements [lease.Store]. All standbys are woken. The renewals that it sees
// meanwhile count for the next Acquire.
func (s *Store) Wait(ctx context.Context, key string, atMost time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	err := s.Follow(waiting, "wait", key, func(r Row) bool {
		s.see(r)
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
	err := s.Follow(network.Holder(ctx), "listen", key, func(r Row) bool { return s.calls(r, before) })
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
