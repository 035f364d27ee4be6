package leasetest

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/rules"
)

// inMemory is a store in memory. With a fault it breaks one rule.
type inMemory struct {
	operated // nil: the histories use no other verbs
	fault    string
	settles  bool
	*shared
}

const year = 365 * 24 * time.Hour

type shared struct {
	mu     sync.Mutex
	states map[string]*rules.State
	began  time.Time
	stale  map[string]*lease.HeldError
	called map[string]seenCall
}

// seenCall is a call of a holder, and since when it has been seen.
type seenCall struct {
	called int64
	since  time.Time
}

func (s inMemory) do(ctx context.Context, key string, verb func(*rules.State, rules.Instant) (lease.Lease, error)) (lease.Lease, error) {
	if err := ctx.Err(); err != nil {
		return lease.Lease{}, &lease.StoreError{Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.states[key]
	if st == nil {
		st = new(rules.New(key))
	}
	if s.fault == "two calls overlap" {
		st = new(*st)
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
	s.states[key] = st
	now := rules.Instant{Boot: "b", Up: time.Since(s.began).Milliseconds(), Wall: time.Now().UnixMilli(), Here: time.Now().UnixMilli(), Serving: year.Milliseconds()}
	if s.settles && s.fault != "an expired lease is granted at once" {
		now.Settle = 300
	}
	if st.Settling != nil {
		now.Settled = time.Since(s.called[key].since).Milliseconds()
	}
	l, answer := verb(st, now)
	if s.called[key].called != st.Called {
		s.called[key] = seenCall{st.Called, time.Now()}
	}
	runtime.Gosched() // lets other clients in
	if err := ctx.Err(); err != nil {
		return lease.Lease{}, &lease.StoreError{Err: err}
	}
	return l, answer
}

func (s inMemory) Acquire(ctx context.Context, r lease.Request) (lease.Lease, error) {
	return s.do(ctx, r.Key, func(st *rules.State, now rules.Instant) (lease.Lease, error) {
		switch s.fault {
		case "a released candidacy comes back":
			st.Released = nil
		case "a tick is served twice":
			st.ServedTick = 0
		case "a start is not counted":
			st.Starts = 0
		case "a token is granted twice":
			if st.Grant == nil && st.Token > 0 {
				st.Token--
			}
			now.Wall = 0
		case "a minimum hold is not kept":
			if st.Grant != nil && st.Grant.Cooldown {
				st.Grant = nil
			}
		case "a denial is old":
			if old := s.stale[r.Key]; old != nil {
				return lease.Lease{}, old
			}
		case "the token goes back when a lease is over":
			if g := st.Grant; g != nil && g.Expires <= now.Up && g.Holder != r.Holder {
				st.Token -= 2
				now.Wall = 0
			}
		case "a key settles for ever":
			st.Settling = nil
		}
		l, err := st.Acquire(r, now)
		switch {
		case err == nil && s.fault == "a lease is granted for too short":
			st.Grant.Expires -= 50
		case st.Grant != nil && s.fault == "a lease lasts as long as others ask for it":
			st.Grant.Expires = now.Up + st.Grant.TTL
		}
		if held, ok := err.(*lease.HeldError); ok { //nolint:errorlint // it is that one
			s.stale[r.Key] = held
		}
		return l, err
	})
}

func (s inMemory) Renew(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	return s.do(ctx, l.Key, func(st *rules.State, now rules.Instant) (lease.Lease, error) {
		switch s.fault {
		case "a renewal compares no holder":
			if st.Grant != nil {
				l.Holder = st.Grant.Holder
			}
		case "a renewal compares no token":
			l.Token = st.Token
		case "a lease that was over and granted to another comes back":
			if st.Token > l.Token {
				st.Token, st.Released = l.Token-1, nil
				st.Grant = nil
			}
		case "a lease that is over never comes back":
			if g := st.Grant; g != nil && g.Expires <= now.Up {
				return lease.Lease{}, lease.ErrLost
			}
		}
		before := st.Grant
		if before != nil {
			before = new(*before)
		}
		l, err := st.Renew(l, now)
		if err == nil && before != nil && s.fault == "a renewal adds no time" {
			st.Grant.Expires = before.Expires
		}
		if s.fault == "nobody learns that he is to hand over" {
			l.HandOver = false
		}
		return l, err
	})
}

func (s inMemory) Release(ctx context.Context, l lease.Lease, r lease.Result) error {
	_, err := s.do(ctx, l.Key, func(st *rules.State, now rules.Instant) (lease.Lease, error) {
		switch s.fault {
		case "a release compares nothing":
			if st.Grant != nil {
				l.Holder, l.Token = st.Grant.Holder, st.Token
			}
		case "a release is forgotten":
			return lease.Lease{}, nil
		}
		return lease.Lease{}, st.Release(l, r, now)
	})
	return err
}

func (s inMemory) HandOver(ctx context.Context, key string) (status lease.Status, err error) {
	_, err = s.do(ctx, key, func(st *rules.State, now rules.Instant) (lease.Lease, error) {
		st.HandOver(now)
		status = st.Status(now)
		return lease.Lease{}, nil
	})
	return status, err
}

func (s inMemory) Revoke(ctx context.Context, key string, atOnce bool) (status lease.Status, err error) {
	_, err = s.do(ctx, key, func(st *rules.State, now rules.Instant) (lease.Lease, error) {
		status = st.Status(now)
		switch s.fault {
		case "a revoked key is free at once":
			atOnce = true
		case "a revocation is forgotten":
			return lease.Lease{}, nil
		}
		st.Revoke(atOnce, now)
		if s.fault == "a revocation keeps the token" {
			st.Token = status.Token
		}
		return lease.Lease{}, nil
	})
	return status, err
}

func (s inMemory) Wait(context.Context, string, time.Duration) error { return lease.ErrNoWakeups }
func (s inMemory) Pass(context.Context, string) error                { return nil }
func (s inMemory) Close() error                                      { return nil }

func harnessOf(fault string, settles bool) Harness {
	all := &shared{states: map[string]*rules.State{}, stale: map[string]*lease.HeldError{}, called: map[string]seenCall{}, began: time.Now()}
	return Harness{Unit: time.Second, Settles: settles, Open: func(*testing.T) lease.Store { return inMemory{fault: fault, settles: settles, shared: all} }}
}

func TestHistories(t *testing.T) {
	for name, settles := range map[string]bool{"settling": true, "one clock": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Histories(t, harnessOf("", settles))
		})
	}
}

// The checker finds every fault.
func TestHistoriesOfBrokenStores(t *testing.T) {
	eachFault(t, false, 0,
		"two calls overlap",
		"a released candidacy comes back",
		"a tick is served twice",
		"a start is not counted",
		"a token is granted twice",
		"a minimum hold is not kept",
		"a denial is old",
		"a renewal compares no holder",
		"a renewal compares no token",
		"a release compares nothing",
		"a release is forgotten",
		"a revoked key is free at once",
		"a revocation is forgotten",
		"a revocation keeps the token",
		"nobody learns that he is to hand over",
	)
}

func TestHurriedHistoriesOfBrokenStores(t *testing.T) {
	eachFault(t, false, hurriedAtATime,
		"a lease is granted for too short",
		"a lease lasts as long as others ask for it",
		"a renewal adds no time",
		"a lease that is over never comes back",
		"a lease that was over and granted to another comes back",
		"the token goes back when a lease is over",
	)
	eachFault(t, true, hurriedAtATime,
		"an expired lease is granted at once",
		"a key settles for ever",
	)
}

func eachFault(t *testing.T, settles bool, hurriedOnes int, faults ...string) {
	for _, fault := range faults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			// A history with a fault may take the checker minutes: another one shows it, too.
			if r := play(t, harnessOf(fault, settles), 2000, 1, hurriedOnes, time.Second); len(r.wrong) == 0 {
				t.Errorf("%d histories, and none is wrong", r.histories)
			} else {
				t.Logf("history after %d:\n%s", r.histories, r.wrong[0])
			}
		})
	}
}
