package rules

import (
	"errors"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// apart is how much the clocks of these tests may differ: more than the TTL.
const apart = 90_000

// apartNoon returns noon, for a store with several clocks.
func apartNoon() Instant {
	now := noon
	now.Settle, now.Server, now.Apart, now.Serving = 300, "s", apart, 10*apart
	return now
}

// seen returns i for a caller that has seen the grant and the settling for so long.
func (i Instant) seen(unrenewed, settled int64) Instant {
	i.Unrenewed, i.Settled = unrenewed, settled
	return i
}

// A clock that is ahead ends no lease early. Before all clocks agree that the lease is over,
// the key is granted only to a candidate that has watched it for its TTL, by its own clock.
func TestClocksApart(t *testing.T) {
	const ttl = 60_000 // of request
	for name, c := range map[string]struct {
		now  Instant
		want any
	}{
		"a clock that is ahead":                   {apartNoon().later(apart), new(*lease.HeldError)},
		"over by that clock, too":                 {apartNoon().later(ttl + apart - 1), new(*lease.HeldError)},
		"over by every clock":                     {apartNoon().later(ttl + apart), new(*lease.SettlingError)},
		"over by every clock, and settled":        {apartNoon().later(ttl+apart).seen(0, 300), nil},
		"watched for less than the ttl":           {apartNoon().later(ttl).seen(ttl-1, 300), new(*lease.HeldError)},
		"watched for the ttl":                     {apartNoon().later(ttl).seen(ttl, 0), new(*lease.SettlingError)},
		"watched for the ttl, nearly settled":     {apartNoon().later(ttl).seen(ttl, 299), new(*lease.SettlingError)},
		"watched for the ttl, and settled":        {apartNoon().later(ttl).seen(ttl, 300), nil},
		"watched by one whose clock is behind":    {apartNoon().later(-apart).seen(ttl, 300), nil},
		"unseen settling, with a clock far ahead": {apartNoon().later(ttl+2*apart).seen(0, 1), new(*lease.SettlingError)},
	} {
		t.Run(name, func(t *testing.T) {
			st := &State{}
			l := granted(t, st, request(), apartNoon())
			st.settle(300, c.now) // another candidate has called the holder
			next, err := st.Acquire(request(), c.now)
			switch {
			case c.want == nil && (err != nil || next.Token <= l.Token):
				t.Errorf("granted %+v, %v", next, err)
			case c.want != nil && !errors.As(err, c.want):
				t.Errorf("%v, want a %T", err, c.want)
			}
		})
	}
}

// If a clock was set back, a dead holder's key is taken for no longer than a lease plus the
// difference of the clocks.
func TestApartClockSetBack(t *testing.T) {
	st := &State{}
	granted(t, st, request(), apartNoon())
	back := apartNoon().later(-year)
	back.Here = noon.Here
	if _, err := st.Acquire(request(), back); !errors.As(err, new(*lease.HeldError)) {
		t.Fatal(err)
	}
	now := back.later(60_000 + 2*apart)
	if _, err := st.Acquire(request(), now); !errors.As(err, new(*lease.SettlingError)) {
		t.Fatal(err)
	}
	granted(t, st, request(), now.seen(0, 300))
}

// Minimum holds count by the store's clock, whatever a candidate has watched. The difference
// of the clocks does not make them longer.
func TestApartMinHold(t *testing.T) {
	const hold = 600_000
	r := request()
	r.MinHold = hold * time.Millisecond
	crashed, released := &State{}, &State{}
	granted(t, crashed, r, apartNoon())
	must.Succeed(t, released.Release(granted(t, released, r, apartNoon()), lease.Result{Ran: true}, apartNoon()))
	for name, st := range map[string]*State{"crashed": crashed, "released": released} {
		var held *lease.HeldError
		if _, err := st.Acquire(request(), apartNoon().later(hold-1000).seen(hold-1000, 300)); !errors.As(err, &held) || held.Remaining != time.Second {
			t.Errorf("%s: %v, want a second to be left", name, err)
		}
		if _, err := st.Acquire(request(), apartNoon().later(hold).seen(hold, 300)); errors.As(err, &held) {
			t.Errorf("%s: %v, and the hold is over", name, err)
		}
	}
	again := &State{}
	must.Succeed(t, again.Release(granted(t, again, r, apartNoon()), lease.Result{Ran: true}, apartNoon()))
	granted(t, again, request(), apartNoon().later(hold)) // this candidate has watched nothing
}

// A candidate that has to wait for long does so once, and not again after each attempt.
func TestApartSettlingIsWaitedOut(t *testing.T) {
	st := &State{Token: 5}
	r := request()
	r.Seen.Token, r.Seen.TTL = 9, 10*time.Second
	for waited := int64(0); waited < 10_000; waited += 1000 {
		var settling *lease.SettlingError
		if _, err := st.Acquire(r, apartNoon().later(apart/2*(waited%3-1)).seen(0, waited)); !errors.As(err, &settling) || settling.Remaining != milliseconds(10_000-waited) {
			t.Fatalf("after %d ms: %v", waited, err)
		}
	}
	granted(t, st, r, apartNoon().seen(0, 10_000))
}

func TestApartStatus(t *testing.T) {
	st := &State{}
	granted(t, st, request(), apartNoon())
	for after, want := range map[int64]time.Duration{0: time.Minute, 59_000: time.Second, 80_000: time.Millisecond, 60_000 + apart: 0} {
		if s := st.Status(apartNoon().later(after)); s.Remaining != want || (s.Why == "") != (want == 0) {
			t.Errorf("after %d ms: %q, %s are left, want %s", after, s.Why, s.Remaining, want)
		}
	}
}

// A release without a minimum hold leaves none, even if the clock is behind the one that
// granted the lease, or was set back since.
func TestReleaseByAClockThatIsBehind(t *testing.T) {
	for name, now := range map[string]Instant{"set back": noon, "another member's": apartNoon()} {
		st := &State{}
		l := granted(t, st, request(), now)
		must.Succeed(t, st.Release(l, lease.Result{Ran: true}, now.later(-20_000)))
		if st.Grant != nil {
			t.Errorf("%s: still held: %+v", name, st.Grant)
		}
		granted(t, st, request(), now.later(-20_000))
	}
}
