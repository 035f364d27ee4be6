package cas

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
)

// A host is recorded after the answer is known: an error there does not change the answer,
// and delays it by a bounded time.
func TestNoteThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := leasestate.New("k")
		now := leasestate.Instant{Boot: "b", Up: 1, Wall: 1_800_000_000_000}
		r := lease.Request{Key: "k", Holder: lease.NewHolder("web-1", 1), TTL: time.Minute, Period: time.Hour}
		if _, err := st.Acquire(r, now); err != nil {
			t.Fatal(err)
		}
		calls := 0
		hung := Verbs(func(ctx context.Context, c Change) (lease.Lease, error) {
			if calls++; calls == 1 {
				return c.Apply(&st, now)
			}
			<-ctx.Done()
			return lease.Lease{}, &lease.StoreError{Err: ctx.Err()}
		})
		began := time.Now()
		r.Holder = lease.NewHolder("web-2", 1)
		_, err := hung.Acquire(t.Context(), r)
		if took := time.Since(began); !errors.As(err, new(*lease.HeldError)) || calls != 2 || took != 300*time.Millisecond {
			t.Errorf("after %d calls and %s: %v", calls, took, err)
		}
	})
}

// A holder id that is not valid is a permanent error.
func TestNoHolder(t *testing.T) {
	_, err := newTable().open().Acquire(t.Context(), lease.Request{Key: "k", Holder: "somebody", TTL: time.Minute})
	if !IsPermanent(err) {
		t.Error(err)
	}
}
