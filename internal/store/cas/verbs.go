package cas

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// Change is what a verb does to the state of a key.
type Change struct {
	Op, Key string
	// Apply changes the present state, which must be kept even if Apply returns an error. It
	// may be called again, if others have changed the state meanwhile.
	Apply func(*leasestate.State, leasestate.Instant) (lease.Lease, error)
	// Renews: without an error, it was a grant or a renewal. Calls: the holder is to be
	// called. Wakes: the key may be free now, so standbys are to be woken.
	Renews, Calls, Wakes bool
	// ID is set if the change must not be made twice, even if its answer is lost.
	ID string
}

// Effect is what a change did to a state.
type Effect struct {
	// Renewed: it was a grant or a renewal. Calls and Wakes are as in Change; a new settling
	// also calls the holder.
	Renewed, Calls, Wakes bool

	changed bool
	lease   lease.Lease
	answer  error
}

// applyTo applies a change to a state.
func (c Change) applyTo(st *leasestate.State, now leasestate.Instant) (e Effect, err error) {
	settling := st.Settling
	was, errWas := json.Marshal(st)
	e.lease, e.answer = c.Apply(st, now)
	is, errIs := json.Marshal(st)
	e.Renewed, e.Wakes = c.Renews && e.answer == nil, c.Wakes
	e.Calls = c.Calls || st.Settling != nil && st.Settling != settling
	e.changed = e.Renewed || !bytes.Equal(was, is)
	return e, errors.Join(errWas, errIs)
}

// Verbs is a function that applies a change, as a whole or not at all. Its methods are the
// verbs of [lease.Store] and [lease.Admin] that change a key. Its error is that of
// Change.Apply, or a *lease.StoreError.
type Verbs func(context.Context, Change) (lease.Lease, error)

// Acquire implements [lease.Store].
func (v Verbs) Acquire(ctx context.Context, r lease.Request) (lease.Lease, error) {
	const op = "acquire"
	if !r.Holder.Valid() {
		return lease.Lease{}, &lease.StoreError{Op: op, Permanent: true, Err: fmt.Errorf("%q is no holder id", r.Holder)}
	}
	var unnoted bool
	l, err := v(ctx, Change{Op: op, Key: r.Key, Renews: true, Apply: func(st *leasestate.State, now leasestate.Instant) (lease.Lease, error) {
		l, err := st.Acquire(r, now)
		unnoted = st.Unnoted(r, err, now)
		return l, err
	}})
	// A change that was given up may still be under way.
	if _, unanswered := errors.AsType[*lease.StoreError](err); !unanswered && unnoted {
		v.note(ctx, r)
	}
	return l, err
}

// note records that the host of r came. That is a separate change, made once the answer is
// known: it delays the answer by 300 ms at most, and its errors are ignored, since the next
// attempt records the host as well.
func (v Verbs) note(ctx context.Context, r lease.Request) {
	const longest = 300 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	_, _ = v(ctx, Change{Op: "acquire", Key: r.Key, Apply: func(st *leasestate.State, now leasestate.Instant) (lease.Lease, error) {
		st.Note(r, now)
		return lease.Lease{}, nil
	}})
}

// Renew implements [lease.Store].
func (v Verbs) Renew(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	return v(network.Holder(ctx), Change{Op: "renew", Key: l.Key, Renews: true, Apply: func(st *leasestate.State, now leasestate.Instant) (lease.Lease, error) {
		return st.Renew(l, now)
	}})
}

// Release implements [lease.Store].
func (v Verbs) Release(ctx context.Context, l lease.Lease, r lease.Result) error {
	_, err := v(network.Holder(ctx), Change{Op: "release", Key: l.Key, Wakes: true, Apply: func(st *leasestate.State, now leasestate.Instant) (lease.Lease, error) {
		return lease.Lease{}, st.Release(l, r, now)
	}})
	return err
}

// Pass implements [lease.Store]. It does nothing: these stores wake all standbys.
func (v Verbs) Pass(context.Context, string) error { return nil }

// HandOver implements [lease.Admin].
func (v Verbs) HandOver(ctx context.Context, key string) (lease.Status, error) {
	return v.operate(ctx, Change{Op: "hand over", Key: key, Calls: true}, func(st *leasestate.State, now leasestate.Instant) lease.Status {
		st.HandOver(now)
		return st.Status(now)
	})
}

// Revoke implements [lease.Admin].
func (v Verbs) Revoke(ctx context.Context, key string, now bool) (lease.Status, error) {
	return v.operate(ctx, Change{Op: "revoke", Key: key, Calls: true, Wakes: true}, func(st *leasestate.State, instant leasestate.Instant) lease.Status {
		before := st.Status(instant)
		st.Revoke(now, instant)
		return before
	})
}

// Pause implements [lease.Admin].
func (v Verbs) Pause(ctx context.Context, key string, d time.Duration, by, reason string) (lease.Status, error) {
	return v.operate(ctx, Change{Op: "pause", Key: key}, func(st *leasestate.State, now leasestate.Instant) lease.Status {
		st.Pause(d, by, reason, now)
		return st.Status(now)
	})
}

// Resume implements [lease.Admin].
func (v Verbs) Resume(ctx context.Context, key string) (lease.Status, error) {
	return v.operate(ctx, Change{Op: "resume", Key: key, Wakes: true}, func(st *leasestate.State, now leasestate.Instant) lease.Status {
		before := st.Status(now)
		st.Resume()
		return before
	})
}

// Forget implements [lease.Admin].
func (v Verbs) Forget(ctx context.Context, key string, token bool) (lease.Status, error) {
	return v.operate(ctx, Change{Op: "forget", Key: key}, func(st *leasestate.State, now leasestate.Instant) lease.Status {
		before := st.Status(now)
		st.Forget(token, now)
		return before
	})
}

func (v Verbs) operate(ctx context.Context, c Change, do func(*leasestate.State, leasestate.Instant) lease.Status) (lease.Status, error) {
	var status lease.Status
	c.ID = rand.Text()
	c.Apply = func(st *leasestate.State, now leasestate.Instant) (lease.Lease, error) {
		status = do(st, now)
		return lease.Lease{}, nil
	}
	if _, err := v(ctx, c); err != nil { // a change that was given up may still be under way
		return lease.Status{}, err
	}
	return status, nil
}
