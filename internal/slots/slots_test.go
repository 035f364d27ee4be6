package slots

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/file"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

func open(t *testing.T, dir string) lease.Store {
	t.Helper()
	s, err := file.Open(dir)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func candidate(s lease.Store) (*Store, lease.Request) {
	began := time.Now()
	return New(s, "k", 2, func() time.Duration { return time.Since(began) }),
		lease.Request{Key: "k", Holder: lease.NewHolder("host", 1), TTL: time.Minute}
}

// As many candidates are granted a lease as there are slots. The next one learns which may be free
// first, and is woken by the release of any.
func TestSlots(t *testing.T) {
	t.Parallel()
	store := open(t, t.TempDir())
	var leases []lease.Lease
	for i, ttl := range []time.Duration{time.Minute, time.Hour} {
		s, r := candidate(store)
		r.TTL = ttl
		l, err := s.Acquire(t.Context(), r)
		must.Succeed(t, err)
		if slot := Of("k", l.Key, 2); slot != i+1 {
			t.Errorf("candidate %d was granted %s, slot %d", i+1, l.Key, slot)
		}
		leases = append(leases, l)
	}
	for _, l := range leases {
		s, r := candidate(store)
		_, err := s.Acquire(t.Context(), r)
		if c, denied := lease.ConditionOf(err); !denied || c.Why != lease.Held || c.Remaining > time.Minute {
			t.Fatalf("a third candidate: %+v, %v", c, err)
		}
		woke := make(chan error, 1)
		go func() { woke <- s.Wait(t.Context(), "k", time.Hour) }()
		must.Succeed(t, store.Release(t.Context(), l, lease.Result{Ran: true}))
		must.Succeed(t, <-woke)
		l2, err := s.Acquire(t.Context(), r)
		if must.Succeed(t, err); l2.Key != l.Key {
			t.Errorf("%s was released, and %s granted", l.Key, l2.Key)
		}
	}
}

// losing loses the answer to one grant.
type losing struct {
	lease.Store
	lost bool
}

func (s *losing) Acquire(ctx context.Context, r lease.Request) (lease.Lease, error) {
	l, err := s.Store.Acquire(ctx, r)
	if err == nil && !s.lost {
		s.lost = true
		return lease.Lease{}, &lease.StoreError{Op: "acquire", Err: errors.New("no answer in time")}
	}
	return l, err
}

// A grant whose answer was lost is found, although an earlier slot is free by then.
func TestAnswerIsLost(t *testing.T) {
	t.Parallel()
	store := open(t, t.TempDir())
	first, r := candidate(store)
	l, err := first.Acquire(t.Context(), r)
	must.Succeed(t, err)
	s, r := candidate(&losing{Store: store})
	if _, err := s.Acquire(t.Context(), r); err == nil {
		t.Fatal("the answer was not lost")
	}
	must.Succeed(t, store.Release(t.Context(), l, lease.Result{Ran: true}))
	if l, err = s.Acquire(t.Context(), r); err != nil || l.Key != "k/slot-2" {
		t.Errorf("asked again it has %q, error %v", l.Key, err)
	}
}

// told is a store that answers as a test says, and notes what it is asked.
type told struct {
	lease.Store
	acquire  func(r lease.Request) (lease.Lease, error)
	wait     func(ctx context.Context, key string) error
	asked    []lease.Request
	passed   []string
	listened string
}

func (s *told) Acquire(_ context.Context, r lease.Request) (lease.Lease, error) {
	s.asked = append(s.asked, r)
	return s.acquire(r)
}

func (s *told) Wait(ctx context.Context, key string, _ time.Duration) error { return s.wait(ctx, key) }

func (s *told) Pass(_ context.Context, key string) error {
	s.passed = append(s.passed, key)
	return nil
}

func (s *told) Listen(_ context.Context, key string) error {
	s.listened = key
	return nil
}

func denies(r lease.Request) (lease.Lease, error) {
	c := lease.Condition{Why: lease.Held, Token: 5, TTL: 10 * time.Second, Remaining: 8 * time.Second, Expires: 100}
	if r.Key != "k" {
		c.Token, c.Remaining = 9, 4*time.Second
	}
	return lease.Lease{}, &lease.HeldError{Condition: c}
}

// The store is told of each slot what this candidate has seen of it, so that lost data are noticed.
// The holder of a slot is called there.
func TestEachSlotIsSeen(t *testing.T) {
	t.Parallel()
	inner, now := &told{acquire: denies}, time.Second
	s := New(inner, "k", 2, func() time.Duration { return now })
	ask := func(granted bool) {
		_, err := s.Acquire(t.Context(), lease.Request{Key: "k"})
		if c, _ := lease.ConditionOf(err); (err == nil) != granted || err != nil && c.Token != 9 {
			t.Errorf("%v, want a grant (%t), or the denial of the slot that is free first", err, granted)
		}
	}
	ask(false)
	now += time.Second
	inner.acquire = func(r lease.Request) (lease.Lease, error) {
		if r.Key == "k/slot-2" {
			return lease.Lease{Key: r.Key, Token: 20, TTL: time.Second}, nil
		}
		return denies(r)
	}
	ask(true)
	inner.acquire = denies
	ask(false)
	want := []lease.Request{
		{Key: "k"}, {Key: "k/slot-2"},
		{Key: "k", Seen: lease.Seen{Token: 5, TTL: 10 * time.Second, Expires: 100, Left: 7 * time.Second}},
		{Key: "k/slot-2", Seen: lease.Seen{Token: 9, TTL: 10 * time.Second, Expires: 100, Left: 3 * time.Second}},
		{Key: "k/slot-2", Seen: lease.Seen{Token: 20, TTL: time.Second, Left: 3 * time.Second}},
		{Key: "k", Seen: lease.Seen{Token: 5, TTL: 10 * time.Second, Expires: 100, Left: 7 * time.Second}},
	}
	if !slices.Equal(inner.asked, want) {
		t.Errorf("asked\n%+v\nwant\n%+v", inner.asked, want)
	}
	if err := s.Listen(t.Context(), "k"); err != nil || inner.listened != "k/slot-2" {
		t.Errorf("listens at %q, error %v", inner.listened, err)
	}
}

// A wake-up that is not used is passed on.
func TestWakeUps(t *testing.T) {
	t.Parallel()
	inner, now := &told{acquire: denies}, time.Duration(0)
	s := New(inner, "k", 2, func() time.Duration { return now })
	waited := make(chan string, 2)
	inner.wait = func(ctx context.Context, key string) error {
		waited <- key
		if key == "k" {
			<-ctx.Done() // and its wake-up came at the same moment
		}
		return nil
	}
	must.Succeed(t, s.Wait(t.Context(), "k", time.Minute))
	must.Succeed(t, s.Pass(t.Context(), "k"))
	if all := <-waited + " " + <-waited; all != "k k/slot-2" && all != "k/slot-2 k" {
		t.Errorf("waited for %s", all)
	}
	if want := []string{"k", "k/slot-2"}; !slices.Equal(inner.passed, want) {
		t.Errorf("passed on %q, want %q", inner.passed, want)
	}

	// When the time is over all waits end.
	inner.passed = nil
	inner.wait = func(context.Context, string) error { return nil }
	later := New(inner, "k", 2, func() time.Duration { now += time.Minute; return now })
	if err := later.Wait(t.Context(), "k", time.Minute); err != nil || inner.passed != nil {
		t.Errorf("passed on %q, error %v", inner.passed, err)
	}
	inner.wait = func(context.Context, string) error { return lease.ErrNoWakeups }
	if err := s.Wait(t.Context(), "k", time.Minute); !errors.Is(err, lease.ErrNoWakeups) || inner.passed != nil {
		t.Errorf("passed on %q, error %v", inner.passed, err)
	}
}
