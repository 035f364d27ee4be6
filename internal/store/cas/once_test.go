package cas

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// lossy is a keeper that loses the answer of a change, or the change.
type lossy struct {
	keeper
	made bool
	sent Row
}

var errLost = errors.New("no answer")

func (k *lossy) Swap(ctx context.Context, r Row) (Row, bool, error) {
	if k.sent = r; k.made {
		if _, saved, err := k.keeper.Swap(ctx, r); !saved {
			return r, saved, err
		}
	}
	return r, false, errLost
}

// An operator's change whose answer is lost is made once, even if the key has changed
// before another server is asked.
func TestAnswerIsLost(t *testing.T) {
	free := func(t *testing.T, s lease.Admin) (lease.Status, error) { return s.Revoke(t.Context(), "k", true) }
	ask := func(t *testing.T, s lease.Admin) (lease.Status, error) { return s.HandOver(t.Context(), "k") }
	first := lease.Request{Key: "k", Holder: lease.NewHolder("first", 1), TTL: 30 * time.Second}
	second := first
	second.Holder = lease.NewHolder("second", 1)
	grant := func(t *testing.T, s memory, r lease.Request) {
		if _, err := s.Acquire(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	follow := func(t *testing.T, s memory) { grant(t, s, second) }
	release := func(t *testing.T, s memory) {
		must.Succeed(t, s.Release(t.Context(), lease.Lease{Key: "k", Holder: first.Holder, Token: token(t, s)}, lease.Result{}))
		follow(t, s)
	}
	another := func(t *testing.T, s memory) {
		if _, err := free(t, s); err != nil {
			t.Error(err)
		}
		follow(t, s)
	}
	const unknown = lease.Holder("unknown")
	for name, c := range map[string]struct {
		verb      func(*testing.T, lease.Admin) (lease.Status, error)
		made      bool
		meanwhile func(*testing.T, memory)
		concerned lease.Holder // by the answer to the operator
		leads     lease.Holder // in the end
	}{
		"made":                            {free, true, nil, first.Holder, ""},
		"made, then another is granted":   {free, true, follow, first.Holder, second.Holder},
		"made, then another operator":     {free, true, another, unknown, second.Holder},
		"not made":                        {free, false, nil, first.Holder, ""},
		"not made, another is granted":    {free, false, release, second.Holder, ""},
		"not made, but another operator":  {free, false, another, unknown, second.Holder},
		"asked":                           {ask, true, nil, first.Holder, first.Holder},
		"asked, then another is granted":  {ask, true, release, first.Holder, second.Holder},
		"not asked":                       {ask, false, nil, first.Holder, first.Holder},
		"not asked before the end of all": {ask, false, func(_ *testing.T, s memory) { s.ahead += time.Hour }, first.Holder, first.Holder},
	} {
		t.Run(name, func(t *testing.T) {
			all := newTable()
			s, operator := all.openSettled(), all.open()
			if _, err := s.Pause(t.Context(), "k", time.Hour, "", ""); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Resume(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
			grant(t, s, first)
			server := &lossy{keeper: keeper{all, s.Store}, made: c.made}
			operator.Do = func(ctx context.Context, _ string, call func(context.Context, Keeper) error) error {
				if err := call(ctx, server); !errors.Is(err, errLost) {
					t.Fatalf("%v, want it to be lost", err)
				}
				if c.meanwhile != nil {
					c.meanwhile(t, s)
				}
				return call(ctx, keeper{all, operator.Store})
			}
			status, err := c.verb(t, operator)
			if errors.As(err, new(*lease.StoreError)) {
				status.Holder = unknown
			}
			if status.Holder != c.concerned {
				t.Errorf("it tells of %q, %v; want %q", status.Holder, err, c.concerned)
			}
			now, err := s.Inspect(t.Context(), "k")
			if err != nil || now.Holder != c.leads || now.HandOver && c.leads == second.Holder {
				t.Errorf("%+v, %v; want %q to lead", now, err, c.leads)
			}
			if _, saved, err := server.keeper.Swap(t.Context(), server.sent); saved || err != nil {
				t.Errorf("what was still on its way is made, %v", err)
			}
		})
	}
}

// If the answer to a grant is lost, the candidate's next attempt is granted.
func TestGrantIsLost(t *testing.T) {
	for _, made := range []bool{false, true} {
		all := newTable()
		s := all.openSettled()
		s.Do = func(ctx context.Context, _ string, call func(context.Context, Keeper) error) error {
			if err := call(ctx, &lossy{keeper: keeper{all, s.Store}, made: made}); !errors.Is(err, errLost) {
				t.Fatalf("%v, want it to be lost", err)
			}
			return call(ctx, keeper{all, s.Store})
		}
		l := granted(t, s, candidate("first"))
		if now, err := all.open().Inspect(t.Context(), "k"); err != nil || now.Holder != l.Holder || now.Token != l.Token {
			t.Errorf("made %t: %+v was granted, and there is %+v, %v", made, l, now, err)
		}
	}
}

// late is a keeper whose key another client changes before its first Swap.
type late struct {
	keeper
	meanwhile func()
}

func (k *late) Swap(ctx context.Context, r Row) (Row, bool, error) {
	if k.meanwhile != nil {
		k.meanwhile()
		k.meanwhile = nil
	}
	return k.keeper.Swap(ctx, r)
}

// Two operators change a key at the same time: both changes are made.
func TestTwoOperators(t *testing.T) {
	all := newTable()
	first, second := all.openSettled(), all.open()
	granted(t, first, candidate("first"))
	first.Do = func(ctx context.Context, _ string, call func(context.Context, Keeper) error) error {
		return call(ctx, &late{keeper{all, first.Store}, func() {
			if _, err := second.Pause(ctx, "k", time.Hour, "", ""); err != nil {
				t.Error(err)
			}
		}})
	}
	if status, err := first.HandOver(t.Context(), "k"); err != nil || !status.HandOver || status.Pause == (lease.Pause{}) {
		t.Errorf("%+v, %v", status, err)
	}
}

func token(t *testing.T, s memory) int64 {
	t.Helper()
	now, err := s.Inspect(t.Context(), "k")
	if err != nil {
		t.Error(err)
	}
	return now.Token
}
