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

func TestMemoryOutlastsTicksAndLeases(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct{ ttl, period, want time.Duration }{
		{30 * time.Second, 0, 35 * day},
		{30 * time.Second, 30 * day, 90 * day},
		{40 * day, 0, 80 * day},
	} {
		if got := keep(c.ttl, c.period); got != c.want.Milliseconds() {
			t.Errorf("ttl %s, period %s: %d ms, want %s", c.ttl, c.period, got, c.want)
		}
	}
}

func TestHolderMustHaveTheForm(t *testing.T) {
	b := miniBackend(t)
	r := request("k")
	r.Holder = "somebody"
	_, err := open(t, b.addr).Acquire(bounded(t), r)
	var failure *lease.StoreError
	if !errors.As(err, &failure) || !failure.Permanent || b.do(t, "DBSIZE") != int64(0) {
		t.Errorf("acquire: %v", err)
	}
}

// A cancelled wait must not go on in the server and take the next wake-up.
func TestCancelledWaitTakesNoWakeUp(t *testing.T) {
	b := realBackend(t)
	s := open(t, b.addr)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_ = s.Wait(ctx, "k", time.Minute)
	for strings.Contains(b.do(t, "CLIENT", "LIST").(string), "cmd=blpop") {
		time.Sleep(time.Millisecond)
	}
	must.Succeed(t, s.Pass(bounded(t), "k"))
	began := time.Now()
	if err := s.Wait(bounded(t), "k", 8*time.Second); err != nil || time.Since(began) > 4*time.Second {
		t.Errorf("wait: %v after %s", err, time.Since(began))
	}
}

func TestWaitForNoTime(t *testing.T) {
	for _, b := range []backend{miniBackend(t), realBackend(t)} {
		for _, atMost := range []time.Duration{0, -time.Second, time.Nanosecond} {
			if err := open(t, b.addr).Wait(bounded(t), "k", atMost); err != nil {
				t.Errorf("wait for %s: %v", atMost, err)
			}
		}
	}
}
