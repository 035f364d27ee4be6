package keep

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// Acquire implements [lease.Store].
func (s *Store) Acquire(ctx context.Context, r lease.Request) (lease.Lease, error) {
	const op = "acquire"
	if !r.Holder.Valid() {
		return lease.Lease{}, &lease.StoreError{Op: op, Permanent: true, Err: fmt.Errorf("%q is no holder id", r.Holder)}
	}
	var unnoted bool
	l, err := s.change(ctx, change{op: op, key: r.Key, apply: func(st *rules.State, now rules.Instant) (lease.Lease, error) {
		l, err := st.Acquire(r, now)
		unnoted = st.Unnoted(r, err, now)
		return l, err
	}})
	if _, unanswered := errors.AsType[*lease.StoreError](err); unanswered { // it may still be under way
		return l, err
	}
	if unnoted {
		s.note(ctx, r)
	}
	if errors.Is(err, lease.ErrDone) && r.Waits { // it may have taken a wake-up that another one needs
		_ = s.Pass(ctx, r.Key)
	}
	if s.Yield != nil && isDenial(err) {
		s.Yield()
	}
	return l, err
}

func isDenial(err error) bool {
	return errors.As(err, new(*lease.HeldError)) || errors.As(err, new(*lease.PausedError))
}

// note records that the host of r came. That is a separate change, made once the answer is
// known: it delays the answer by 300 ms at most, and its errors are ignored, since the next
// attempt records the host as well.
func (s *Store) note(ctx context.Context, r lease.Request) {
	const longest = 300 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	_, _ = s.change(ctx, change{op: "acquire", key: r.Key, apply: func(st *rules.State, now rules.Instant) (lease.Lease, error) {
		st.Note(r, now)
		return lease.Lease{}, nil
	}})
}

// remembers returns the holder whose remembered row will do. A minimum hold ends by the store's
// time, of which a holder knows only what its own clock says, which may be faster.
func remembers(l lease.Lease) lease.Holder {
	if l.MinHoldUntil > l.AcquiredAt {
		return ""
	}
	return l.Holder
}

// Renew implements [lease.Store].
func (s *Store) Renew(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	return s.change(network.Holder(ctx), change{op: "renew", key: l.Key, holder: remembers(l), apply: func(st *rules.State, now rules.Instant) (lease.Lease, error) {
		return st.Renew(l, now)
	}})
}

// Release implements [lease.Store].
func (s *Store) Release(ctx context.Context, l lease.Lease, r lease.Result) error {
	_, err := s.change(network.Holder(ctx), change{op: "release", key: l.Key, wakes: true, holder: remembers(l), apply: func(st *rules.State, now rules.Instant) (lease.Lease, error) {
		return lease.Lease{}, st.Release(l, r, now)
	}})
	s.forget(l.Key)
	return err
}

// Wait implements [lease.Store]. Renewals that a store shows during the wait count for the next
// Acquire. A holder that dies wakes nobody: callers use their own timer for the end of the lease.
func (s *Store) Wait(ctx context.Context, key string, atMost time.Duration) error {
	if s.scarce() || s.Overwritten && s.seen(key).foreign {
		return lease.ErrNoWakeups // it polls
	}
	end := time.Now().Add(atMost) //nolint:forbidigo // a context's deadline is on that clock
	waiting, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	err := s.Hear(waiting, Wake, key, func(r Row) bool {
		s.observe(r, s.Now())
		return r.Free(s.instant(r))
	})
	switch {
	// A connection with the same deadline may notice its end before waiting does.
	case time.Until(end) <= 0 && ctx.Err() == nil: //nolint:forbidigo // as above
		return nil
	case isPermanent(err), err != nil && s.scarce(): // the next acquire reports what is wrong
		return lease.ErrNoWakeups
	}
	return err
}

// scarce reports whether the store has too few connections.
func (s *Store) scarce() bool { return s.Slots != nil && s.Slots.Scarce() }

// Listen implements [lease.Store].
func (s *Store) Listen(ctx context.Context, key string) error {
	ctx = network.Holder(ctx)
	if s.Slots != nil {
		var cancel context.CancelFunc
		ctx, cancel = s.Slots.UntilRefused(ctx)
		defer cancel()
	}
	before := s.seen(key).renewal
	err := s.Hear(ctx, Call, key, func(r Row) bool { return s.isCalled(r, before) })
	if isPermanent(err) {
		return lease.ErrNoWakeups
	}
	return err
}

// isPermanent reports whether a store's error stays so until a person acts.
func isPermanent(err error) bool {
	failure, ok := errors.AsType[*lease.StoreError](err)
	return ok && failure.Permanent
}

// Pass implements [lease.Store].
func (s *Store) Pass(ctx context.Context, key string) error {
	if s.Config.Pass == nil { // all standbys were woken
		return nil
	}
	return s.Config.Pass(ctx, key)
}

// Inspect implements [lease.Admin].
func (s *Store) Inspect(ctx context.Context, key string) (status lease.Status, err error) {
	err = s.Do(ctx, "status", func(ctx context.Context, k Keeper) error {
		r, err := k.Read(ctx, key)
		if err == nil {
			status = r.Status(s.instant(r))
		}
		return err
	})
	return status, err
}

// Follow implements [lease.Admin].
func (s *Store) Follow(ctx context.Context, from lease.Status, atMost time.Duration) error {
	if !s.Follows {
		return lease.ErrNoWakeups
	}
	following, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	err := s.Hear(following, Wake, from.Key, func(r Row) bool {
		is := r.Status(s.instant(r))
		return is.Token != from.Token || is.How() != from.How()
	})
	if following.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

// Keys implements [lease.Admin].
func (s *Store) Keys(ctx context.Context) (all []string, err error) {
	err = s.Do(ctx, "list", func(ctx context.Context, k Keeper) error {
		names, err := k.Names(ctx)
		all = keys(names, lease.ValidKey)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// HandOver implements [lease.Admin].
func (s *Store) HandOver(ctx context.Context, key string) (lease.Status, error) {
	return s.operate(ctx, change{op: "hand over", key: key}, func(st *rules.State, now rules.Instant) lease.Status {
		st.HandOver(now)
		return st.Status(now)
	})
}

// Revoke implements [lease.Admin].
func (s *Store) Revoke(ctx context.Context, key string, now bool) (lease.Status, error) {
	return s.operate(ctx, change{op: "revoke", key: key, wakes: true}, before(func(st *rules.State, instant rules.Instant) { st.Revoke(now, instant) }))
}

// Pause implements [lease.Admin].
func (s *Store) Pause(ctx context.Context, key string, d time.Duration, by, reason string) (lease.Status, error) {
	return s.operate(ctx, change{op: "pause", key: key}, func(st *rules.State, now rules.Instant) lease.Status {
		st.Pause(d, by, reason, now)
		return st.Status(now)
	})
}

// Resume implements [lease.Admin].
func (s *Store) Resume(ctx context.Context, key string) (lease.Status, error) {
	return s.operate(ctx, change{op: "resume", key: key, wakes: true}, before(func(st *rules.State, _ rules.Instant) { st.Resume() }))
}

// Forget implements [lease.Admin].
func (s *Store) Forget(ctx context.Context, key string, token bool) (lease.Status, error) {
	return s.operate(ctx, change{op: "forget", key: key}, before(func(st *rules.State, now rules.Instant) { st.Forget(token, now) }))
}

// before returns a verb whose answer is the status before it.
func before(do func(*rules.State, rules.Instant)) func(*rules.State, rules.Instant) lease.Status {
	return func(st *rules.State, now rules.Instant) lease.Status {
		status := st.Status(now)
		do(st, now)
		return status
	}
}

func (s *Store) operate(ctx context.Context, c change, do func(*rules.State, rules.Instant) lease.Status) (lease.Status, error) {
	var status lease.Status
	c.id = rand.Text()
	c.apply = func(st *rules.State, now rules.Instant) (lease.Lease, error) {
		status = do(st, now)
		return lease.Lease{}, nil
	}
	_, err := s.change(ctx, c)
	if errors.Is(err, errUnknown) {
		err = &lease.StoreError{Op: c.op, Err: errUnknown}
	}
	if err != nil { // a change that was given up may still be under way
		return lease.Status{}, err
	}
	return status, nil
}
