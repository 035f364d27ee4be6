package slots

import (
	"context"
	"errors"
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
