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

// Table is a [lease.Store] without Wait, Listen and Close, and a [lease.Admin], on a table
// leaderrun_leases with a row per key, and on the clock of its database. A row has a
// version: a change is written only to the row that it was made for. C is a connection.
type Table[C any] struct {
	Verbs
	Prefix string // the first column of every row
	// Do runs a call on a connection, and returns its error as a *lease.StoreError.
	Do func(ctx context.Context, op string, call func(C) error) error
	// Yield closes an idle connection if the database has too few.
	Yield func()
	// Look returns the row of key, or one with a new state. A damaged row is an error: see
	// Keeper.
	Look func(ctx context.Context, c C, key string) (Record, error)
	// Missing reports whether an error says that there is no table; Create makes it.
	// Interrupted reports whether a read was interrupted and may be repeated at once.
	Missing, Interrupted func(error) bool
	Create               func(context.Context, C) error
	// Save replaces the row that was read, unless somebody has changed it since. If the
	// database did not take the change because of others and undid it, refused says why.
	Save func(ctx context.Context, c C, r Record, e Effect) (saved bool, refused, err error)
	// Names returns the keys of all rows with the prefix.
	Names func(context.Context, C) ([]string, error)
}

// Record is the row of a key, and when it was read.
type Record struct {
	State   leasestate.State
	Version int64 // 0: there is no row
	Now     leasestate.Instant
	Kept    any // what the store needs to replace it
}

// NewTable returns t with its Verbs.
func NewTable[C any](t Table[C]) *Table[C] {
	t.Verbs = t.change
	return &t
}

var (
	// ErrShape says that the table is another program's.
	ErrShape = errors.New("its table leaderrun_leases is not leaderrun's")
	// ErrNotSaved says that a change had no effect, though the database reported no error.
	ErrNotSaved = errors.New("its table leaderrun_leases does not take what is written to it")
)

// noTable says why the missing table cannot be created.
type noTable struct{ error }

func (e *noTable) Unwrap() error { return e.error }

// contendedError says that other transactions kept the database from changing a row, again
// and again.
type contendedError struct{ error }

func (e *contendedError) Unwrap() error { return e.error }

// untrusted says that leaderrun cannot have written a row.
type untrusted struct{ error }

func (e *untrusted) Unwrap() error { return e.error }

// Hints say, for one kind of database, what to do if the table is missing, belongs to
// another program, or takes no changes.
type Hints struct{ Table, Shape, NotSaved string }

// Complete adds to the server's message for err what it means for the table.
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

// Known returns the text and hint of an error of this package, nil for any other error.
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

// Untrusted returns the error that the row of key cannot be trusted.
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

// Read returns the row of key, and creates the table if it is missing.
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

// refusals is how often a change may fail although nobody else has changed the row.
const refusals = 10

// change applies a change to the key's row, and begins again if others have changed the row
// in between.
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
			did, err := ch.applyTo(&r.State, r.Now)
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

// Inspect implements [lease.Admin]. It does not create the table.
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
