package leasetest

import (
	"errors"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// expiryTests: a lease that was not released is over by the store's clock, which may have
// been set.
var expiryTests = []test{
	{"a holder that was called before the end of its lease is followed at its end", expiryForeseen},
	{"any other one has time to renew", expiryDoubted},
}

// expired returns a lease that is over by the store's clock, and what a standby has seen of
// it.
func expired(t *testing.T, h Harness) (s lease.Store, l lease.Lease, seen lease.Seen) {
	t.Helper()
	s, r := h.Open(t), h.request()
	r.TTL = max(h.Unit, time.Second) // long enough for a denial that does not call the holder
	l = h.Grant(t, s, r)
	denied := held(t, s, rival(r), lease.Held)
	h.pass(2 * r.TTL)
	return s, l, lease.Seen{Token: denied.Token, TTL: denied.TTL, Expires: denied.Expires}
}

func expiryForeseen(t *testing.T, h Harness) {
	const tries = 10 // a busy machine may ask too late, or call the holder too slowly
	for try := 1; !foreseen(t, h); try++ {
		if try == tries {
			t.Fatalf("asked too late %d times", tries)
		}
	}
}

// foreseen reports whether the standby asked at the intended times.
func foreseen(t *testing.T, h Harness) bool {
	s, r := h.Open(t), h.request()
	r.TTL = max(h.Unit, time.Second)
	l := h.Grant(t, s, r)
	standby := rival(r)
	ahead, settling := 350*time.Millisecond, 300*time.Millisecond // a standby asks again that long before the end
	if h.Uncalled {
		ahead, settling = 2*r.TTL/5+50*time.Millisecond, 2*r.TTL/5
	}
	denied := held(t, s, standby, lease.Held)
	begun := time.Now()
	h.pass(denied.Remaining - ahead)
	if time.Since(begun) > denied.Remaining-ahead/2 {
		return false
	}
	if denied = held(t, s, standby, lease.Held); denied.Remaining <= settling {
		return false
	}
	standby.Seen = lease.Seen{Token: denied.Token, TTL: denied.TTL, Expires: denied.Expires}
	h.pass(denied.Remaining + time.Millisecond)
	next, err := s.Acquire(bounded(t), standby)
	if errors.As(err, new(*lease.SettlingError)) { // the key settles longer after a slow call
		return false
	}
	if err != nil || next.Token <= l.Token {
		t.Errorf("granted %+v after token %d, error %v", next, l.Token, err)
	}
	return true
}

func expiryDoubted(t *testing.T, h Harness) {
	if !h.Settles { // its clock cannot be set
		return
	}
	for name, change := range map[string]func(*lease.Seen){
		"it knows nothing":         func(seen *lease.Seen) { *seen = lease.Seen{} },
		"its clock says otherwise": func(seen *lease.Seen) { seen.Left = 3 * h.Unit },
	} {
		t.Run(name, func(t *testing.T) {
			s, l, seen := expired(t, h)
			change(&seen)
			candidate := h.request()
			candidate.Key, candidate.Seen = l.Key, seen
			if settling := settles(t, s, candidate); settling.Settle != lease.SettleExpired {
				t.Errorf("settles because it is %s, want %s", settling.Settle, lease.SettleExpired)
			}
			reasserted(t, s, l)
			held(t, s, candidate, lease.Held)
		})
	}
}
