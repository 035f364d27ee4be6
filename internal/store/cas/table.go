package cas

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// Table is a [lease.Store], but for Wait, Listen and Close, and a [lease.Admin], on a
// table leaderrun_leases that has a row per key, and on the clock of its database. A row
// has a version: a change is written only to the row that it was made for. C is a
// connection.
type Table[C any] struct {
	Verbs
	Prefix string // the first column of every row
	// Do runs a call on a connection. An error is returned as a *lease.StoreError.
	Do func(ctx context.Context, op string, call func(C) error) error
	// Yield gives a connection back if the database has too few.
	Yield func()
	// Look finds the row of key, or one with a new state. It never guesses: see Keeper.
	Look func(ctx context.Context, c C, key string) (Record, error)
	// Missing reports whether an error says that there is no table, which Create makes, and
	// Interrupted whether a read was cut short, and may be done again at once.
	Missing, Interrupted func(error) bool
	Create               func(context.Context, C) error
	// Save replaces the row that was read, unless somebody has changed it since. Refused
	// is why the database did not take it now, so that it was undone.
	Save func(ctx context.Context, c C, r Record, e Effect) (saved bool, refused, err error)
	// Names are the keys of all rows with the prefix.
	Names func(context.Context, C) ([]string, error)
}

// Record is what a table has of a key, and when.
type Record struct {
	State   leasestate.State
	Version int64 // 0: there is no row
	Now     leasestate.Instant
	Kept    any // what the store has to know to replace it
}

// NewTable makes the store of a table that has all but its Verbs.
func NewTable[C any](t Table[C]) *Table[C] {
	t.Verbs = t.change
	return &t
}

var (
	// ErrShape says that the table is another program's.
	ErrShape = errors.New("its table leaderrun_leases is not leaderrun's")
	// ErrNotSaved says that the table was not changed, without an error of the database.
	ErrNotSaved = errors.New("its table leaderrun_leases does not take what is written to it")
)

// noTable is why a table that is missing cannot be made.
type noTable struct{ error }

func (e *noTable) Unwrap() error { return e.error }

// contendedError is why the database refused change after change of a row: because of
// other transactions.
type contendedError struct{ error }

func (e *contendedError) Unwrap() error { return e.error }

// untrusted is a row that leaderrun did not write.
type untrusted struct{ error }

func (e *untrusted) Unwrap() error { return e.error }

// Hints are what to do about errors of one kind of database: the table is missing, is
// another program's, or takes no changes.
type Hints struct{ Table, Shape, NotSaved string }

// Complete adds to the server's words for err what they mean for the table.
func (h Hints) Complete(said *network.Known, err error) {
	if said.Hint == h.Shape {
		said.Text = ErrShape.Error() + ": " + said.Text
	}
	switch {
	case errors.As(err, new(*noTable)):
		said.Text = "the table leaderrun_leases is missing, and " + said.Text
		if said.Permanent {
			said.Hint = h.Table
		}
	case errors.As(err, new(*contendedError)):
		said.Text = fmt.Sprintf("%d changes in a row were refused because of others: %s", refusals, said.Text)
	}
}

// Known words an error of this package; nil: it is none.
func (h Hints) Known(err error) *network.Known {
	known := network.Known{Text: err.Error(), Permanent: true}
	switch {
	case errors.As(err, new(*untrusted)):
		known.Hint = leasestate.Hint(err, "delete that row once no command of this key runs")
	case errors.Is(err, ErrShape):
		known.Hint = h.Shape
	case errors.Is(err, ErrNotSaved):
		known.Hint = h.NotSaved
	default:
		return nil
	}
	return &known
}

// Untrusted says that the row of key cannot be trusted.
func (t *Table[C]) Untrusted(key string, err error) error {
	return &untrusted{fmt.Errorf("the row of %s, %s in leaderrun_leases cannot be trusted: %w", t.Prefix, key, err)}
}

// Acquire implements [lease.Store].
func (t *Table[C]) Acquire(ctx context.Context, r lease.Request) (lease.Lease, error) {
	l, err := t.Verbs.Acquire(ctx, r)
	if errors.As(err, new(*lease.HeldError)) {
		t.Yield()
	}
	return l, err
}

// Read looks at the row of key, and makes the table where it is missing.
func (t *Table[C]) Read(ctx context.Context, c C, key string) (Record, error) {
	r, err := t.Look(ctx, c, key)
	if t.Missing(err) {
		if err := t.Create(ctx, c); err != nil {
			return r, &noTable{err}
		}
		return t.Look(ctx, c, key)
	}
	return r, err
}

// refusals is how often a change of a row that nobody has changed may fail.
const refusals = 10

// change applies a change to the key's row, again while others change the row in between.
func (t *Table[C]) change(ctx context.Context, ch Change) (l lease.Lease, answer error) {
	err := t.Do(ctx, ch.Op, func(c C) error {
		var unchanged, last int64
		for {
			r, err := t.Read(ctx, c, ch.Key)
			if t.Interrupted(err) {
				continue
			}
			if err != nil {
				return err
			}
			did, err := ch.to(&r.State, r.Now)
			l, answer = did.lease, did.answer
			if err != nil || !did.changed {
				return err
			}
			saved, refused, err := t.Save(ctx, c, r, did)
			if saved || err != nil {
				return err
			}
			if r.Version != last {
				unchanged, last = 0, r.Version
			}
			if unchanged++; unchanged < refusals {
				continue
			}
			if refused != nil {
				return &contendedError{refused}
			}
			return ErrNotSaved
		}
	})
	if err != nil {
		return lease.Lease{}, err
	}
	return l, answer
}

// Inspect implements [lease.Admin]. Where the table is missing it stays so.
func (t *Table[C]) Inspect(ctx context.Context, key string) (status lease.Status, err error) {
	err = t.Do(ctx, "status", func(c C) error {
		r, err := t.Look(ctx, c, key)
		if err == nil || t.Missing(err) {
			status, err = r.State.Status(r.Now), nil
		}
		return err
	})
	return status, err
}

// Keys implements [lease.Admin].
func (t *Table[C]) Keys(ctx context.Context) (keys []string, err error) {
	err = t.Do(ctx, "list", func(c C) error {
		names, err := t.Names(ctx, c)
		if t.Missing(err) {
			err = nil
		}
		keys = slices.DeleteFunc(names, func(name string) bool { return !lease.ValidKey(name) })
		slices.Sort(keys)
		return err
	})
	return keys, err
}
