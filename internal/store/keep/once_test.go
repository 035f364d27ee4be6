package keep

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// lossy loses the answer to a change, or the change.
type lossy struct {
	*memory
	made bool
	sent Row
}

var errLost = errors.New("no answer")

func (k *lossy) Swap(ctx context.Context, r Row, e Effect) (Row, bool, error) {
	if k.sent = r; k.made {
		if _, saved, err := k.memory.Swap(ctx, r, e); !saved {
			return r, saved, err
		}
	}
	return r, false, errLost
}

// thenAsks makes a store's calls on a first keeper, which loses the answer, and then on m.
func (m *memory) thenAsks(t *testing.T, s memoryStore, first *lossy, meanwhile func()) {
	s.Do = func(ctx context.Context, _ string, call func(context.Context, Keeper) error) error {
		if err := call(ctx, first); !errors.Is(err, errLost) {
			t.Fatalf("%v, want it to be lost", err)
		}
		meanwhile()
		return call(ctx, m)
	}
}

func candidate(host string) lease.Request {
	return lease.Request{Key: "k", Holder: lease.NewHolder(host, 1), TTL: time.Minute}
}

func granted(t *testing.T, s lease.Store, r lease.Request) lease.Lease {
	t.Helper()
	l, err := s.Acquire(t.Context(), r)
	must.Succeed(t, err)
	return l
}

func leads(t *testing.T, s lease.Admin) lease.Status {
	t.Helper()
	now, err := s.Inspect(t.Context(), "k")
	must.Succeed(t, err)
	return now
}

// An operator's change whose answer is lost is made once, even if the key has changed before
// another server is asked.
func TestAnswerIsLost(t *testing.T) {
	free := func(t *testing.T, s lease.Admin) (lease.Status, error) { return s.Revoke(t.Context(), "k", true) }
	ask := func(t *testing.T, s lease.Admin) (lease.Status, error) { return s.HandOver(t.Context(), "k") }
	first, second := candidate("first"), candidate("second")
	nothing := func(*testing.T, *memory, memoryStore) {}
	follow := func(t *testing.T, _ *memory, s memoryStore) { granted(t, s, second) }
	release := func(t *testing.T, m *memory, s memoryStore) {
		must.Succeed(t, s.Release(t.Context(), lease.Lease{Key: "k", Holder: first.Holder, Token: leads(t, s).Token}, lease.Result{}))
		follow(t, m, s)
	}
	another := func(t *testing.T, m *memory, s memoryStore) {
		_, err := free(t, s)
		must.Succeed(t, err)
		follow(t, m, s)
	}
	const unknown = lease.Holder("unknown")
	for name, c := range map[string]struct {
		verb      func(*testing.T, lease.Admin) (lease.Status, error)
		made      bool
		meanwhile func(*testing.T, *memory, memoryStore)
		concerned lease.Holder // by the answer to the operator
		leads     lease.Holder // in the end
	}{
		"made":                            {free, true, nothing, first.Holder, ""},
		"made, then another is granted":   {free, true, follow, first.Holder, second.Holder},
		"made, then another operator":     {free, true, another, unknown, second.Holder},
		"not made":                        {free, false, nothing, first.Holder, ""},
		"not made, another is granted":    {free, false, release, second.Holder, ""},
		"not made, but another operator":  {free, false, another, unknown, second.Holder},
		"asked":                           {ask, true, nothing, first.Holder, first.Holder},
		"asked, then another is granted":  {ask, true, release, first.Holder, second.Holder},
		"not asked":                       {ask, false, nothing, first.Holder, first.Holder},
		"not asked before the end of all": {ask, false, func(_ *testing.T, m *memory, _ memoryStore) { m.advance(time.Hour) }, first.Holder, first.Holder},
	} {
		t.Run(name, func(t *testing.T) {
			m := newSettled()
			s, operator := m.open(), m.open()
			_, err := s.Resume(t.Context(), "k")
			must.Succeed(t, err)
			granted(t, s, first)
			server := &lossy{memory: m, made: c.made}
			m.thenAsks(t, operator, server, func() { c.meanwhile(t, m, s) })
			status, err := c.verb(t, operator)
			if errors.As(err, new(*lease.StoreError)) {
				status.Holder = unknown
			}
			if status.Holder != c.concerned {
				t.Errorf("it tells of %q, %v; want %q", status.Holder, err, c.concerned)
			}
			if now := leads(t, s); now.Holder != c.leads || now.HandOver && c.leads == second.Holder {
				t.Errorf("%+v; want %q to lead", now, c.leads)
			}
			if _, saved, err := m.Swap(t.Context(), server.sent, Effect{}); saved || err != nil {
				t.Errorf("what was still on its way is made, %v", err)
			}
		})
	}
}

// If the answer to a grant is lost, the next server grants the same.
func TestGrantIsLost(t *testing.T) {
	for _, made := range []bool{false, true} {
		m := newSettled()
		s := m.open()
		m.thenAsks(t, s, &lossy{memory: m, made: made}, func() {})
		l := granted(t, s, candidate("first"))
		if now := leads(t, m.open()); now.Holder != l.Holder || now.Token != l.Token {
			t.Errorf("made %t: %+v was granted, and there is %+v", made, l, now)
		}
	}
}

// swapping is a keeper whose swaps a test replaces.
type swapping struct {
	*memory
	swap func(context.Context, Row, Effect) (Row, bool, error)
}

func (k swapping) Swap(ctx context.Context, r Row, e Effect) (Row, bool, error) {
	return k.swap(ctx, r, e)
}

func (k swapping) do(ctx context.Context, op string, call func(context.Context, Keeper) error) error {
	if err := call(ctx, k); err != nil {
		return &lease.StoreError{Op: op, Err: err}
	}
	return nil
}

// Two operators change a key at the same time: both changes are made.
func TestTwoOperators(t *testing.T) {
	m := newSettled()
	first, second := m.open(), m.open()
	granted(t, first, candidate("first"))
	tries := 0
	first.Do = swapping{m, func(ctx context.Context, r Row, e Effect) (Row, bool, error) {
		if tries++; tries == 1 {
			_, err := second.Pause(ctx, "k", time.Hour, "", "")
			must.Succeed(t, err)
		}
		return m.Swap(ctx, r, e)
	}}.do
	if status, err := first.HandOver(t.Context(), "k"); err != nil || !status.HandOver || status.Pause == (lease.Pause{}) {
		t.Errorf("%+v, %v", status, err)
	}
}

// A change that fails again and again, though nobody else changes the row, is given up with
// the reason.
func TestChangesAreRefused(t *testing.T) {
	contended := &Refused{errors.New("could not serialize access")}
	for name, refusal := range map[string]error{"in silence": nil, "because of others": contended} {
		m := newSettled()
		s, tries := m.open(), 0
		s.Do = swapping{m, func(ctx context.Context, r Row, _ Effect) (Row, bool, error) {
			if tries++; tries == refusals-1 && refusal == nil {
				_, err := m.open().Pause(ctx, "k", time.Minute, "", "")
				must.Succeed(t, err)
			}
			is, err := m.Read(ctx, "k")
			return is, false, errors.Join(err, refusal)
		}}.do
		_, err := s.HandOver(t.Context(), "k") // nothing to do
		must.Succeed(t, err)
		_, err = s.Pause(t.Context(), "k", time.Hour, "", "")
		want := refusals
		if refusal == nil {
			want += refusals - 1 // somebody has changed the row meanwhile
		}
		if !errors.Is(err, ErrNotSaved) || errors.Is(err, contended) != (refusal != nil) || tries != want {
			t.Errorf("%s: %v after %d tries, want %d", name, err, tries, want)
		}
	}
}

// A row is removed once it is idle, when another key is new, and only the one that was read.
func TestIdleRowsAreForgotten(t *testing.T) {
	m := newSettled()
	s := m.open()
	s.Do = func(ctx context.Context, _ string, call func(context.Context, Keeper) error) error {
		return call(ctx, prunable{m})
	}
	keep := func(key string, period time.Duration) lease.Request {
		r := candidate("first")
		r.Key, r.Period = key, period
		return r
	}
	const day = 24 * time.Hour
	for key, period := range map[string]time.Duration{"old": day, "quarterly": 90 * day} {
		must.Succeed(t, s.Release(t.Context(), granted(t, s, keep(key, period)), lease.Result{Ran: true, Success: true}))
	}
	m.advance(34 * day)
	granted(t, s, keep("first", 0))
	if _, there := m.rows["old"]; !there {
		t.Error("forgotten too early")
	}
	m.advance(2 * day)
	granted(t, s, keep("first", 0)) // not new
	if _, there := m.rows["old"]; !there {
		t.Error("forgotten without a new key")
	}
	granted(t, s, keep("second", 0))
	if _, there := m.rows["old"]; there {
		t.Error("not forgotten")
	}
	if _, there := m.rows["quarterly"]; !there {
		t.Error("a quarterly one is forgotten after 36 days")
	}
}
