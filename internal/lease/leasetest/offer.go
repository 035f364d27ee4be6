package leasetest

import (
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// offerTests: a holder offers to hand over to a standby.
func offerTests() []test {
	return []test{
		{"an offer is taken up by a candidate that stands by", offerIsTaken},
		{"an offer that is withdrawn is not taken up", offerIsWithdrawn},
		{"an offer is not taken up in a pause", offerInAPause},
		{"the next holder has offered nothing", offerIsForOne},
	}
}

// offers renews, and checks whether the holder is asked to hand over.
func offers(t *testing.T, s lease.Store, l lease.Lease, offered, asked bool) {
	t.Helper()
	l.Offered = offered
	renewed := renew(t, s, l)
	if renewed.HandOver != asked || renewed.Offered != offered || renewed.Token != l.Token {
		t.Errorf("renewed %+v, want a hand-over %t", renewed, asked)
	}
}

// waiting returns r as another candidate that stands by.
func waiting(r lease.Request) lease.Request {
	r = rival(r)
	r.Waits = true
	return r
}

func offerIsTaken(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	l := h.Grant(t, s, r)
	held(t, s, waiting(r), lease.Held)
	offers(t, s, l, true, false) // who came before does not count
	offers(t, s, l, true, false)
	held(t, s, rival(r), lease.Held)
	offers(t, s, l, true, false)
	other := waiting(r)
	held(t, s, other, lease.Held)
	if status := inspect(t, s, r.Key); !status.HandOver {
		t.Errorf("the status is %+v", status)
	}
	offers(t, s, l, true, true)
	offers(t, s, l, false, true) // too late
	release(t, s, l, succeeded)
	h.Grant(t, s, other)
}

func offerIsWithdrawn(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	l := h.Grant(t, s, r)
	offers(t, s, l, true, false)
	offers(t, s, l, false, false)
	held(t, s, waiting(r), lease.Held)
	offers(t, s, l, false, false)
}

// Nobody could follow the leader.
func offerInAPause(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	l := h.Grant(t, s, r)
	pause(t, s, r.Key, h.long())
	offers(t, s, l, true, false)
	held(t, s, waiting(r), lease.Held)
	offers(t, s, l, true, false)
	resume(t, s, r.Key)
	held(t, s, waiting(r), lease.Held)
	offers(t, s, l, true, true)
}

func offerIsForOne(t *testing.T, h Harness) {
	s, r := operate(t, h), h.request()
	l := h.Grant(t, s, r)
	offers(t, s, l, true, false)
	release(t, s, l, succeeded)
	r = rival(r)
	l = h.Grant(t, s, r)
	held(t, s, waiting(r), lease.Held)
	offers(t, s, l, false, false)
}
