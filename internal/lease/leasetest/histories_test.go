package leasetest

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
)

// inMemory keeps the rules for one process. With a fault it breaks one of them.
type inMemory struct {
	fault string
	*shared
}

type shared struct {
	mu     sync.Mutex
	states map[string]*leasestate.State
	began  time.Time
	stale  map[string]*lease.HeldError
}

func (s inMemory) do(ctx context.Context, key string, verb func(*leasestate.State, leasestate.Instant) (lease.Lease, error)) (lease.Lease, error) {
	if err := ctx.Err(); err != nil {
		return lease.Lease{}, &lease.StoreError{Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.states[key]
	if st == nil {
		st = new(leasestate.New(key))
	}
	if s.fault == "two calls overlap" {
		st = new(*st)
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
	s.states[key] = st
	now := leasestate.Instant{Boot: "b", Up: time.Since(s.began).Milliseconds(), Wall: time.Now().UnixMilli()}
	l, answer := verb(st, now)
	runtime.Gosched() // so that others come meanwhile
	if err := ctx.Err(); err != nil {
		return lease.Lease{}, &lease.StoreError{Err: err}
	}
	return l, answer
}

func (s inMemory) Acquire(ctx context.Context, r lease.Request) (lease.Lease, error) {
	return s.do(ctx, r.Key, func(st *leasestate.State, now leasestate.Instant) (lease.Lease, error) {
		switch s.fault {
		case "a released candidacy comes back":
			st.Released = nil
		case "a tick is served twice":
			st.Served = 0
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
		}
		l, err := st.Acquire(r, now)
		if held, ok := err.(*lease.HeldError); ok { //nolint:errorlint // it is that one
			s.stale[r.Key] = held
		}
		return l, err
	})
}

func (s inMemory) Renew(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	return s.do(ctx, l.Key, func(st *leasestate.State, now leasestate.Instant) (lease.Lease, error) {
		switch s.fault {
		case "a renewal compares no holder":
			if st.Grant != nil {
				l.Holder = st.Grant.Holder
			}
		case "a renewal compares no token":
			l.Token = st.Token
		}
		l, err := st.Renew(l, now)
		if s.fault == "nobody learns that he is to hand over" {
			l.HandOver = false
		}
		return l, err
	})
}

func (s inMemory) Release(ctx context.Context, l lease.Lease, r lease.Result) error {
	_, err := s.do(ctx, l.Key, func(st *leasestate.State, now leasestate.Instant) (lease.Lease, error) {
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
	_, err = s.do(ctx, key, func(st *leasestate.State, now leasestate.Instant) (lease.Lease, error) {
		st.HandOver(now)
		status = st.Status(now)
		return lease.Lease{}, nil
	})
	return status, err
}

func (s inMemory) Revoke(ctx context.Context, key string, atOnce bool) (status lease.Status, err error) {
	_, err = s.do(ctx, key, func(st *leasestate.State, now leasestate.Instant) (lease.Lease, error) {
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

func (s inMemory) Pause(context.Context, string, time.Duration, string, string) (lease.Status, error) {
	return lease.Status{}, nil
}
func (s inMemory) Forget(context.Context, string, bool) (lease.Status, error) {
	return lease.Status{}, nil
}
func (s inMemory) Resume(context.Context, string) (lease.Status, error)  { return lease.Status{}, nil }
func (s inMemory) Inspect(context.Context, string) (lease.Status, error) { return lease.Status{}, nil }
func (s inMemory) Keys(context.Context) ([]string, error)                { return nil, nil }

func (s inMemory) Wait(context.Context, string, time.Duration) error { return lease.ErrNoWakeups }
func (s inMemory) Pass(context.Context, string) error                { return nil }
func (s inMemory) Close() error                                      { return nil }

func harnessOf(fault string) Harness {
	all := &shared{states: map[string]*leasestate.State{}, stale: map[string]*lease.HeldError{}, began: time.Now()}
	return Harness{Unit: time.Second, Open: func(*testing.T) lease.Store { return inMemory{fault, all} }}
}

func TestHistories(t *testing.T) { Histories(t, harnessOf("")) }

// The checker sees whatever is wrong.
func TestHistoriesOfBrokenStores(t *testing.T) {
	for _, fault := range []string{
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
	} {
		t.Run(fault, func(t *testing.T) {
			if r := play(t, harnessOf(fault), 2000, 1); len(r.wrong) == 0 {
				t.Errorf("%d histories, and none is wrong", r.histories)
			} else {
				t.Logf("history after %d:\n%s", r.histories, r.wrong[0])
			}
		})
	}
}
