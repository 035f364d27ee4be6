package rules

import (
	"errors"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// Where no holder can be called, a key settles until its renewal must have come: two fifths of its
// TTL, by the candidate's clock.
func TestUncalled(t *testing.T) {
	now := apartNoon()
	now.Uncalled, now.Serving = true, 0
	settles := func(st *State, r lease.Request, now Instant, want time.Duration) {
		t.Helper()
		var settling *lease.SettlingError
		if _, err := st.Acquire(r, now); !errors.As(err, &settling) || settling.Remaining != want {
			t.Errorf("%v, want it to settle for %s", err, want)
		}
	}
	st := &State{}
	settles(st, request(), now, 24*time.Second) // the request's TTL is a minute
	settles(st, request(), now.later(23_999).seen(0, 23_999), time.Millisecond)
	l, err := st.Acquire(request(), now.later(24_000).seen(0, 24_000))
	must.Succeed(t, err)

	// The holder is late: a standby's denial begins the settling, which is over when the lease is.
	granted := now.later(24_000)
	for after, begun := range map[int64]bool{35_000: false, 36_000: true} {
		copied := *st
		copied.Grant = new(*st.Grant)
		_, err := copied.Acquire(request(), granted.later(after).seen(after, 0))
		if !errors.As(err, new(*lease.HeldError)) || (copied.Settling != nil) != begun {
			t.Errorf("after %d ms: %v, settling %+v", after, err, copied.Settling)
		}
		if begun {
			_, err := copied.Acquire(request(), granted.later(60_000).seen(60_000, 24_000))
			must.Succeed(t, err)
		}
	}
	// Whoever comes later settles, for the holder's TTL and not for its own.
	brief := request()
	brief.TTL = time.Second
	settles(st, brief, granted.later(60_000+apart).seen(0, 0), 24*time.Second)
	if _, err := st.Renew(l, granted.later(60_000+apart)); err != nil || st.Settling != nil {
		t.Errorf("the holder has renewed: %v, settling %+v", err, st.Settling)
	}
}
