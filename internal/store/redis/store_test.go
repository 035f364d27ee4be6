package redis

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// A cancelled wait must not go on in the server and take the next wake-up.
func TestCancelledWaitTakesNoWakeUp(t *testing.T) {
	b := realBackend(t)
	s := open(t, b.addr)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_ = s.Wait(ctx, "k", time.Minute)
	awaits(t, "end of the wait", func() bool { return b.waiting(t) == 0 })
	must.Succeed(t, s.Pass(bounded(t), "k"))
	began := time.Now()
	if err := s.Wait(bounded(t), "k", 8*time.Second); err != nil || time.Since(began) > 4*time.Second {
		t.Errorf("wait: %v after %s", err, time.Since(began))
	}
}

func TestWaitForNoTime(t *testing.T) {
	s := open(t, realBackend(t).addr)
	for _, atMost := range []time.Duration{0, -time.Second, time.Nanosecond} {
		if err := s.Wait(bounded(t), "k", atMost); err != nil {
			t.Errorf("wait for %s: %v", atMost, err)
		}
	}
}

// In the last millisecond of a lease the server says that nothing is left, and the lease is there.
func TestLastMillisecondOfALease(t *testing.T) {
	s := open(t, "127.0.0.1:1")
	k := keeper{s, "acquire"}
	const now = int64(1_900_022_400_000)
	for _, value := range []string{"web-1/1/" + strings.Repeat("0a", 16), "somebody"} {
		r, err := k.row("k", answer{items: []any{int64(0), now, "s", value, int64(0), nil, nil, nil, nil, nil}})
		must.Succeed(t, err)
		_, err = r.Acquire(request("k"), r.Now)
		if _, held := errors.AsType[*lease.HeldError](err); !held {
			t.Errorf("%s: %v", value, err)
		}
	}
}

// Another program that has the key rings no bell: a standby polls, and the key is free for it as soon
// as that program has deleted its lease.
func TestRivalWakesNobody(t *testing.T) {
	b := realBackend(t)
	s := open(t, b.addr)
	b.do(t, "SET", s.leaseKey("k"), "rival", "PX", "30000")
	if d := denied(t, s, request("k")); d.Why != lease.Foreign {
		t.Errorf("%+v", d)
	}
	if err := s.Wait(bounded(t), "k", time.Minute); !errors.Is(err, lease.ErrNoWakeups) {
		t.Errorf("wait: %v", err)
	}
	b.do(t, "DEL", s.leaseKey("k"))
	grant(t, s, request("k"))
}
