package networktest

import (
	"errors"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// GoesOn renews a lease that the server has kept.
func GoesOn(t testing.TB, s lease.Store, l lease.Lease) lease.Lease {
	t.Helper()
	return renewed(t, s, l, false)
}

// ComesBack renews a lease that the server has lost, before the key is granted to anybody else.
func ComesBack(t testing.TB, s lease.Store, l lease.Lease) lease.Lease {
	t.Helper()
	return renewed(t, s, l, true)
}

func renewed(t testing.TB, s lease.Store, l lease.Lease, reasserted bool) lease.Lease {
	t.Helper()
	after, err := s.Renew(Bounded(t), l)
	if err != nil || after.Reasserted != reasserted || after.Token != l.Token {
		t.Fatalf("renewed %+v as %+v, %v; want it reasserted: %t", l, after, err, reasserted)
	}
	return after
}

// Lost checks that a renewal says that the lease is lost.
func Lost(t testing.TB, s lease.Store, l lease.Lease) {
	t.Helper()
	if _, err := s.Renew(Bounded(t), l); !errors.Is(err, lease.ErrLost) {
		t.Errorf("renewed: %v, want it to be lost", err)
	}
}

// Settles makes an attempt that must wait for a holder that may be alive.
func Settles(t testing.TB, s lease.Store, r lease.Request, why lease.SettleReason) {
	t.Helper()
	_, err := s.Acquire(Bounded(t), r)
	if settling, ok := errors.AsType[*lease.SettlingError](err); !ok || settling.Settle != why {
		t.Errorf("acquire: %v, want it to settle (%s)", err, why)
	}
}

// GrantAfter is Grant, and checks that the token is larger than that of an earlier lease.
func GrantAfter(t testing.TB, s lease.Store, r lease.Request, earlier lease.Lease) {
	t.Helper()
	if l := Grant(t, s, r); l.Token <= earlier.Token {
		t.Errorf("token %d after %d", l.Token, earlier.Token)
	}
}
