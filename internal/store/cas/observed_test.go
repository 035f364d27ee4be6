package cas

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

func candidate(host string) lease.Request {
	return lease.Request{Key: "k", Holder: lease.NewHolder(host, 1), TTL: time.Minute}
}

func granted(t *testing.T, s lease.Store, r lease.Request) lease.Lease {
	t.Helper()
	l, err := s.Acquire(t.Context(), r)
	must.Succeed(t, err)
	return l
}

func renewed(t *testing.T, s lease.Store, l lease.Lease) {
	t.Helper()
	if _, err := s.Renew(t.Context(), l); err != nil {
		t.Fatal(err)
	}
}

// called reports whether the holder is called.
func called(t *testing.T, s lease.Pinger) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := s.Listen(ctx, "k")
	if err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	return err == nil
}

// back returns a function that restores the store's present data.
func (t *table) back() (restore func()) {
	text := t.texts["k"]
	return func() { t.put("k", text) }
}

// A request to hand over calls the holder until a renewal has reported it. So does a store
// that may have lost its lease.
func TestHolderIsCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTable()
		holder, others := all.openSettled(), all.openSettled()
		l := granted(t, holder, candidate("first"))
		if called(t, holder) {
			t.Error("called after the grant")
		}
		atGrant := all.back()
		if _, err := others.HandOver(t.Context(), "k"); err != nil || !called(t, holder) {
			t.Errorf("not called to hand over, %v", err)
		}

		do := holder.Do
		holder.Do = func(ctx context.Context, _ string, call func(context.Context, Keeper) error) error {
			return call(ctx, &lossy{keeper: keeper{all, holder.Store}})
		}
		if _, err := holder.Renew(t.Context(), l); !errors.Is(err, errLost) || !called(t, holder) {
			t.Errorf("after a renewal without an answer (%v) the call is over", err)
		}
		holder.Do = do
		renewed(t, holder, l)
		if called(t, holder) {
			t.Error("called after the renewal")
		}

		atGrant()
		if !called(t, holder) {
			t.Error("the store went back, and the holder is not called")
		}
		renewed(t, holder, l)
		if called(t, holder) {
			t.Error("called after the renewal")
		}
		if _, err := others.Revoke(t.Context(), "k", true); err != nil {
			t.Fatal(err)
		}
		r := candidate("second")
		renewed(t, others, granted(t, others, r))
		row, err := keeper{all, others.Store}.Read(t.Context(), "k")
		if row.Called = 0; err != nil { // as it was at the last renewal
			t.Fatal(err)
		}
		if _, saved, err := (keeper{all, others.Store}).Swap(t.Context(), row); !saved || !called(t, holder) {
			t.Errorf("another is granted the key, and the holder is not called: %v", err)
		}
	})
}

// A row that was read while a renewal was under way lacks it, and is no loss of data.
func TestRenewalBesideAReadCallsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holder := newTable().openSettled()
		l := granted(t, holder, candidate("first"))
		follow := holder.Follow
		holder.Follow = func(ctx context.Context, op, key string, enough func(Row) bool) error {
			first := sync.OnceFunc(func() { renewed(t, holder, l) })
			return follow(ctx, op, key, func(r Row) bool {
				first()
				return enough(r)
			})
		}
		if called(t, holder) {
			t.Error("called by its own renewal")
		}
	})
}

// A standby that follows a key sees each renewal at once. So it takes over from a dead
// holder when the lease is over, although the servers' clocks may differ.
func TestStandbySeesRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTable()
		holder, standby := all.openSettled(), all.openSettled()
		r := candidate("first")
		l := granted(t, holder, r)
		waiting, cancel := context.WithCancel(t.Context())
		go func() { _ = standby.Wait(waiting, "k", time.Hour) }()
		synctest.Wait()
		time.Sleep(r.TTL / 2)
		renewed(t, holder, l)
		synctest.Wait()
		cancel()
		time.Sleep(r.TTL + 2*time.Second)
		granted(t, standby, candidate("second"))
	})
}

// A renewal is seen even if the store has come back with older data and has counted the
// same number of renewals before.
func TestRenewalsAfterTheStoreWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTable()
		holder, standby := all.openSettled(), all.openSettled()
		r := candidate("first")
		l := granted(t, holder, r)
		atGrant := all.back()
		renewed(t, holder, l)
		ask := func() {
			t.Helper()
			if _, err := standby.Acquire(t.Context(), candidate("second")); !errors.As(err, new(*lease.HeldError)) {
				t.Fatalf("a standby was answered %v", err)
			}
		}
		ask()
		time.Sleep(r.TTL + time.Second)
		atGrant()
		renewed(t, holder, l)
		time.Sleep(r.TTL - time.Second)
		ask() // by its own clock it has only now seen the renewal
		time.Sleep(3 * time.Second)
		ask()
	})
}

// A value has the time of its last change, so that stores can remove keys that are no longer
// used.
func TestChangesHaveATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTable()
		s := all.openSettled()
		granted(t, s, candidate("first"))
		time.Sleep(time.Hour)
		if _, err := s.Pause(t.Context(), "k", time.Hour, "", ""); err != nil {
			t.Fatal(err)
		}
		r, err := keeper{all, s.Store}.Read(t.Context(), "k")
		if err != nil || r.Changed != r.Date.UnixMilli() {
			t.Errorf("changed at %d, %v; it is %d", r.Changed, err, r.Date.UnixMilli())
		}
	})
}

// Wait returns the error of Follow. If that is permanent it returns that there are no
// wake-ups.
func TestWaitFails(t *testing.T) {
	s := newTable().open()
	for _, permanent := range []bool{false, true} {
		failure := &lease.StoreError{Op: "wait", Err: errLost, Permanent: permanent}
		s.Follow = func(context.Context, string, string, func(Row) bool) error { return failure }
		err := s.Wait(t.Context(), "k", time.Hour)
		if permanent != errors.Is(err, lease.ErrNoWakeups) || permanent == errors.Is(err, errLost) {
			t.Errorf("permanent %t: %v", permanent, err)
		}
	}
}
