// Package keep makes a [lease.Store] of anything that can read the row of a key, and replace it
// if it is still the one that was read. It applies the rules of package rules, and nothing else
// decides. A new store implements [Keeper], tells [Store] how to reach it, and how its bell is
// heard.
//
// Promise: the contract of [lease.Store]. A change is written only to the row that it was made
// for, so all changes of a key have one order, as if each verb had run alone. A write whose
// answer is lost may be applied later or twice: if the row is still as it was read, it is as if
// the verb had taken that long; otherwise the write changes nothing. A verb may be repeated on
// another server; a change by an operator leaves its id in the state, so it is made only once.
//
// Time: a lease counts from the store's clock as it was read, which is after its holder sent the
// request, and the holder counts from before the request. So however late a write arrives, the
// holder stops before the row says that the key is free. Servers without a common clock say so
// (Apart in [rules.Instant]): their candidates watch, on their own clock, for how long a lease is
// not renewed. How long a key settles is always counted on the candidate's own clock, from the
// answer that showed it.
//
// Not promised: a store that loses acknowledged writes can grant a key twice if it does not
// report another Server after the loss, or if the holder cannot be called.
//
// Only the stores and tests may import it.
package keep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// Keeper reads and replaces rows. [Config.Do] says which one a call uses.
type Keeper interface {
	// Read returns the row of key, or one with a new state if there is none. It changes
	// nothing. A row that leaderrun cannot have written is an error: to guess what it means
	// could grant twice.
	Read(ctx context.Context, key string) (Row, error)
	// Swap writes r.State in the place of the row that had r.Version when it was read, and
	// rings the bells that e names. saved: it was written; now is r then, with its new Version
	// and Kept if the store Remembers. Not saved, without an error: somebody has changed the row
	// since it was read; nothing was written, and now is the row as it is. After an error nobody
	// knows whether it was written, unless that is a *Refused: the store has undone the change
	// because of others, and it is made again.
	Swap(ctx context.Context, r Row, e Effect) (now Row, saved bool, err error)
	// Names returns the names of all keys, in any order, and perhaps names that are none.
	Names(ctx context.Context) ([]string, error)
}

// Pruner is an optional interface of a keeper whose rows do not go by themselves.
type Pruner interface {
	// Oldest returns some of the rows that were not changed for [rules.MinKeep], as far as they can
	// be removed by this user: those that may be idle before all others.
	Oldest(ctx context.Context, now rules.Instant) ([]Row, error)
	// Remove removes a row, unless it has been changed since it was read.
	Remove(ctx context.Context, r Row) error
}

// Row is the state of a key as it was read.
type Row struct {
	rules.State
	Now rules.Instant // at which it was read, from [Store.At]
	// Version is another one after each change, also if the state is one that the row had
	// before; nil means that there is no row. Values of it can be compared.
	Version any
	Kept    any // what else the keeper needs to replace the row
}

// Effect is what a change did to a state.
type Effect struct {
	// Renewed: it was a grant or a renewal. Calls: the holder is to be called. Wakes: the key
	// may be free now, so a standby is to be woken.
	Renewed, Calls, Wakes bool
}

// Bell is one of the two bells of a key.
type Bell string

const (
	Wake Bell = "wake" // standbys hear it when the key may be free
	Call Bell = "call" // the holder hears it when it must renew
)

// Op names a call of [Config.Hear] in errors.
func (b Bell) Op() string {
	if b == Wake {
		return "wait"
	}
	return "listen"
}

// Settle is how long, in ms, a key waits for a holder that may be alive although a store does not
// know it: longer than a holder on the same network needs to hear the call and to renew, and short
// enough for a first run. If the store cannot call holders, that is Uncalled in [rules.Instant].
const Settle = 300

// Config says how a store is reached. Everything may be called from several goroutines.
type Config struct {
	// Do runs a call on a keeper, and perhaps again on another one if the first gave no answer:
	// a write on the first one may then have been made, or be made later. It returns the call's
	// errors as *lease.StoreError: permanent and with a hint after an *Untrusted.
	Do func(ctx context.Context, op string, call func(context.Context, Keeper) error) error
	// Hear blocks until the bell of key rings, and returns nil. First it starts to listen, then
	// it reads the row and returns at once if until is true of it: so no ring is missed. It reads
	// again whenever it may have missed one. If a ring is kept for some seconds, it need not
	// read. A store that polls only reads. Errors are *lease.StoreError, also at the end of ctx;
	// or lease.ErrNoWakeups at once, if the store has no bells.
	Hear func(ctx context.Context, bell Bell, key string, until func(Row) bool) error
	// Follows: Hear asks until about the row after each of its changes, whatever rings.
	Follows bool
	// Slots and Yield are those of a store whose servers limit connections, or nil.
	Slots *network.Slots
	Yield func()
	// Pass rings the wake bell once more, if it wakes only one standby, else nil.
	Pass func(ctx context.Context, key string) error
	// Remembers: the store itself counts how long a lease lasts after a write. So a holder can
	// renew and release with the row that it wrote last, and need not read it before, unless
	// the lease has a minimum hold.
	Remembers bool
	// Overwritten: other programs may have the lease, and ring no bell.
	Overwritten bool
	// Instant is what all instants of the store have in common: Boot, which is not empty (the name
	// of the store, unless its leases end with a boot), Settle, Uncalled and Apart.
	Instant rules.Instant
	// Now is the clock of this process, Here the wall clock of its host in ms, and Wall corrects
	// a store's. Only tests set them.
	Now  func() time.Duration
	Here func() int64
	Wall func(ms int64) int64
}

// Store is a [lease.Store] without Close, and a [lease.Admin]. Several goroutines may use it at
// a time.
type Store struct {
	Config
	observed observations
}

// New returns a store.
func New(c Config) *Store {
	began := time.Now() //nolint:forbidigo // a clock that stands still in between makes this process wait longer, no more
	if c.Now == nil {
		c.Now = func() time.Duration { return time.Since(began) } //nolint:forbidigo // the same
	}
	if c.Here == nil {
		c.Here = func() int64 { return time.Now().UnixMilli() } //nolint:forbidigo // it is only compared with that of other hosts
	}
	return &Store{Config: c, observed: observations{of: map[string]observation{}}}
}

// Untrusted says that leaderrun cannot have written what stands at a place.
type Untrusted struct {
	Place string // such as "key NAME"
	Err   error
}

func (e *Untrusted) Error() string { return fmt.Sprintf("%s cannot be trusted: %v", e.Place, e.Err) }
func (e *Untrusted) Unwrap() error { return e.Err }

// Refused says that a store has undone a change because of others, or does not take it.
type Refused struct{ Err error }

func (e *Refused) Error() string { return e.Err.Error() }
func (e *Refused) Unwrap() error { return e.Err }

// ErrNotSaved says that changes have no effect, though nobody else has changed the row.
var ErrNotSaved = errors.New("it does not take what is written to it")

// refusals is how often a change may fail although nobody else has changed the row.
const refusals = 10

// At returns the instant of an answer: ms is the store's wall time, on which its leases run,
// and server the one that answered.
func (s *Store) At(ms int64, server string) rules.Instant {
	now := s.Instant
	if s.Wall != nil {
		ms = s.Wall(ms)
	}
	now.Up, now.Wall, now.Server = ms, ms, server
	return now
}

// Parse reads a state as [json.Marshal] writes it. Its error says why leaderrun cannot have
// written it: a keeper returns it in an [Untrusted].
func (s *Store) Parse(key string, text []byte) (st rules.State, err error) {
	if json.Unmarshal(text, &st) != nil {
		return st, errors.New("it is damaged") // the error itself speaks of Go's types
	}
	if err := st.Check(key); err != nil {
		return st, err
	}
	if boot := s.Instant.Boot; boot != "" && st.Grant != nil && st.Grant.Boot != boot {
		return st, errors.New("its grant is not one of this store")
	}
	return st, nil
}

// change is what a verb does to the state of a key.
type change struct {
	op, key string
	// apply changes the present state, which must be kept even if apply returns an error. It
	// may be called again, if others have changed the state meanwhile.
	apply func(*rules.State, rules.Instant) (lease.Lease, error)
	// wakes: the key may be free afterwards. holder: it is this holder's change, who may
	// remember the row.
	wakes  bool
	holder lease.Holder
	// id is set if the change must not be made twice, even if its answer is lost.
	id string
}

// change applies a change to the key's row, and begins again if others have changed the row
// in between.
func (s *Store) change(ctx context.Context, c change) (l lease.Lease, answer error) {
	once := once{id: c.id}
	err := s.Do(ctx, c.op, func(ctx context.Context, k Keeper) (err error) {
		r, known := s.remembered(c)
		sent := s.Now()
		if !known {
			if r, err = k.Read(ctx, c.key); err != nil {
				return err
			}
		}
		for refused := 0; ; {
			if over, unknown := once.look(r); over {
				answer = unknown
				return nil
			}
			if !known {
				s.observe(r, sent)
			}
			now := s.instant(r)
			next, did, changed, err := c.applyTo(r, now, &l, &answer)
			if err != nil || !changed && !once.unanswered {
				return err
			}
			sent, known = s.Now(), false
			is, saved, err := k.Swap(ctx, next, did)
			if saved {
				slow := s.observe(is, sent)
				if settling, ok := errors.AsType[*lease.SettlingError](answer); ok && did.Calls {
					settling.Remaining += slow
				}
				if did.Renewed {
					s.observeOwn(is)
				}
				if r.Version == nil {
					prune(ctx, k, now)
				}
				return err
			}
			if errors.As(err, new(*Refused)) || err == nil && is.Version == r.Version {
				if refused++; refused == refusals {
					return errors.Join(err, ErrNotSaved)
				}
			} else if err == nil {
				refused = 0
			}
			if errors.As(err, new(*Refused)) {
				is, err = k.Read(ctx, c.key)
			}
			if err != nil {
				once.unanswered = c.id != ""
				return err
			}
			r = is
		}
	})
	if err != nil {
		s.unheard(c.key)
		return lease.Lease{}, err
	}
	return l, answer
}

// applyTo applies a change to a row, and reports whether the row is another one then.
func (c change) applyTo(r Row, now rules.Instant, l *lease.Lease, answer *error) (next Row, did Effect, changed bool, err error) {
	was, errWas := json.Marshal(r.State)
	next = r // the rules may change what it points to
	if g := r.Grant; g != nil {
		next.Grant = new(*g)
	}
	if settling := r.Settling; settling != nil {
		next.Settling = new(*settling)
	}
	next.Released, next.Candidates, next.Runs = slices.Clone(r.Released), slices.Clone(r.Candidates), slices.Clone(r.Runs)
	*l, *answer = c.apply(&next.State, now)
	is, errIs := json.Marshal(next.State)
	did = Effect{Renewed: next.Renewed != r.Renewed, Calls: next.Called != r.Called, Wakes: c.wakes}
	changed = !bytes.Equal(was, is)
	next.Now, next.Changed = now, now.Wall
	if c.id != "" {
		next.ChangeID = c.id
	}
	return next, did, changed, errors.Join(errWas, errIs)
}

// once makes sure that a change with an id is made once. If the answer to a write is lost, the
// id in the row shows whether the change was made. The change's own id: it was made. The id from
// before: it was not, and is made now; the row is written even if nothing else changes, so that
// the first write comes too late. Another id: nobody knows, since another operator has changed
// the key meanwhile.
type once struct {
	id, before string
	unanswered bool
}

var errUnknown = errors.New("it was done or not: its answer is lost, and another operator has changed the key since")

func (o *once) look(r Row) (over bool, unknown error) {
	switch {
	case !o.unanswered:
		o.before = r.ChangeID
	case r.ChangeID == o.id:
		return true, nil
	case r.ChangeID != o.before:
		return true, errUnknown
	}
	return false, nil
}

// prune removes rows that have not been used for long. It is called after a row is added, so
// their number does not grow for ever, and renewals take no longer. Errors are ignored: the next
// call tries again.
func prune(ctx context.Context, k Keeper, now rules.Instant) {
	p, ok := k.(Pruner)
	if !ok {
		return
	}
	rows, err := p.Oldest(ctx, now)
	if err != nil {
		return
	}
	for _, r := range rows {
		if r.Idle(now) && p.Remove(ctx, r) != nil {
			return
		}
	}
}
