package rules

import (
	"errors"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// Another program has the lease: candidates wait for it, and none of these rules applies to
// it.
func TestForeign(t *testing.T) {
	const now = 1_700_000_000_000
	instant := Instant{Boot: "b", Up: now, Wall: now, Settle: 300}
	foreign := func(left int64) State {
		st := New("k")
		st.Token = 7
		st.Grant = &Grant{Holder: "rival", TTL: 6000, Boot: "b", Acquired: now - 1000, AcquiredWall: now - 1000, Expires: now + left, Foreign: true}
		return st
	}
	r := lease.Request{Key: "k", Holder: lease.NewHolder("h", 1), TTL: time.Minute}
	st := foreign(100)
	var denied *lease.HeldError
	if _, err := st.Acquire(r, instant); !errors.As(err, &denied) || denied.Why != lease.Foreign || denied.Value != "rival" || st.Settling != nil {
		t.Errorf("%v, %+v", err, st.Settling)
	}
	if s := st.Status(instant); s.Why != lease.Foreign || s.Value != "rival" || s.Holder != "" {
		t.Errorf("%+v", s)
	}
	st.HandOver(instant)
	st.Revoke(false, instant)
	if st.Token != 7 || st.Grant.HandOver || st.Grant.Revoked {
		t.Errorf("%+v", st)
	}
	st.Revoke(true, instant)
	if st.Grant != nil || st.Token <= 7 || len(st.Runs) > 0 {
		t.Errorf("%+v", st)
	}
	st = foreign(100) // under the id of one of leaderrun's holders, which has no grant any more
	st.Grant.Holder = r.Holder
	if l, err := st.Acquire(r, instant); !errors.As(err, &denied) {
		t.Errorf("%+v, %v", l, err)
	}
	l := lease.Lease{Key: "k", Holder: r.Holder, Token: 8, TTL: time.Minute, AcquiredAt: now - 1000}
	if back, err := st.Renew(l, instant); err != nil || back.Token != 8 || !back.Reasserted || st.Grant.Foreign {
		t.Errorf("%+v, %v", back, err)
	}
	st = foreign(100)
	if _, err := st.Renew(l, instant); !errors.Is(err, lease.ErrLost) {
		t.Errorf("%v", err)
	}
	st = foreign(-1)
	if l, err := st.Acquire(r, instant); err != nil || l.Token <= 7 || len(st.Runs) > 0 {
		t.Errorf("%+v, %v, %+v", l, err, st.Runs)
	}
}
