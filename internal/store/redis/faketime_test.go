package redis

import (
	"errors"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

const days = 24 * time.Hour

// Grants, denials, renewals, ticks and expiries do not depend on this host's clock, nor on
// how fast the server's runs.
func TestOnlyTheStoresClockCounts(t *testing.T) {
	for _, c := range []struct {
		clock string
		ahead time.Duration
	}{{"+0", 0}, {"+40d", 40 * days}, {"-40d", -40 * days}, {"+0 x1.005", 0}, {"+0 x0.995", 0}} {
		t.Run(c.clock, func(t *testing.T) {
			t.Parallel()
			server := script.StartRedis(t)
			server.SetClock(c.clock)
			b := backend{addr: server.Addr, raw: rawClient(t, server.Addr)}
			if ahead := time.Until(time.UnixMilli(b.now(t))); (ahead - c.ahead).Abs() > time.Minute {
				t.Fatalf("the server's clock is %s ahead", ahead)
			}
			t.Run("lease", func(t *testing.T) { t.Parallel(); leaseByTheStoresClock(t, b) })
			t.Run("expiry", func(t *testing.T) { t.Parallel(); expiryByTheStoresClock(t, b) })
			t.Run("tick", func(t *testing.T) { t.Parallel(); tickByTheStoresClock(t, b) })
		})
	}
}

func leaseByTheStoresClock(t *testing.T, b backend) {
	s, r := open(t, b.addr), request("lease")
	began := b.now(t)
	l := grant(t, s, r)
	if l.AcquiredAt < began || l.AcquiredAt > b.now(t) || l.Token < l.AcquiredAt {
		t.Errorf("granted %+v, it began at %d", l, began)
	}
	_, err := s.Acquire(bounded(t), request("lease"))
	if held, ok := errors.AsType[*lease.HeldError](err); !ok || held.Remaining > r.TTL || held.Remaining < r.TTL-patience {
		t.Errorf("a rival: %v", err)
	}
	b.do(t, "DEL", s.leaseKey("lease"))
	back := networktest.ComesBack(t, s, l)
	must.Succeed(t, s.Release(bounded(t), back, lease.Result{Ran: true}))
}

// patience is how long a busy machine may take between two answers.
const patience = 10 * time.Second

func expiryByTheStoresClock(t *testing.T, b backend) {
	s, r := open(t, b.addr), request("expiry")
	r.TTL = time.Second
	grant(t, s, r)
	last, seen := time.Now(), lease.Seen{} // the last answer that denied
	for began := last; ; time.Sleep(time.Millisecond) {
		next := request("expiry")
		next.TTL, next.Seen = r.TTL, seen
		_, err := s.Acquire(bounded(t), next)
		if held, ok := errors.AsType[*lease.HeldError](err); ok && held.Remaining <= r.TTL && time.Since(began) < patience {
			last, seen = time.Now(), lease.Seen{Token: held.Token, TTL: held.TTL, Expires: held.Expires}
			continue
		}
		if errors.As(err, new(*lease.SettlingError)) && time.Since(began) < patience {
			continue // the machine stood still when the key should have settled
		}
		if took := time.Since(began); err != nil || took < 900*time.Millisecond {
			t.Errorf("the next attempt %s after the grant, %s after a denial: %v", took, time.Since(last), err)
		}
		return
	}
}

func tickByTheStoresClock(t *testing.T, b backend) {
	s, r := open(t, b.addr), request("tick")
	r.Period = 2 * time.Second
	served := grant(t, s, r)
	must.Succeed(t, s.Release(bounded(t), served, lease.Result{Ran: true, Success: true}))
	done := 0
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		next := request("tick")
		next.Period = r.Period
		l, err := s.Acquire(bounded(t), next)
		if errors.Is(err, lease.ErrDone) && time.Since(began) < patience {
			done++
			continue
		}
		if later := l.Tick - served.Tick; err != nil || later < 1000 || done == 0 {
			t.Errorf("after %d skips a run with a tick %d ms later: %v", done, later, err)
		}
		return
	}
}

// A holder counts its lease by its own clock, the server by the server's. If their rates
// differ by no more than the margin covers, the lease ends after valid-until.
func TestMarginCoversAFastStore(t *testing.T) {
	for _, c := range []struct {
		clock   string
		covered bool
	}{{"+0", true}, {"+0 x1.005", true}, {"+0 x1.009", true}, {"+0 x1.05", false}} {
		t.Run(c.clock, func(t *testing.T) {
			t.Parallel()
			server := script.StartRedis(t)
			server.SetClock(c.clock)
			b := backend{addr: server.Addr, raw: rawClient(t, server.Addr)}
			s := open(t, b.addr)
			for range 15 { // a busy machine may miss the moment
				switch outlives, ends := observeEnd(t, b, s); {
				case outlives && c.covered, ends && !c.covered:
					return
				case outlives, ends:
					t.Fatalf("the lease outlives valid-until: %t, ends before: %t", outlives, ends)
				}
			}
			t.Fatal("the moment was always missed")
		})
	}
}

// observeEnd reports what is certain about the end of a lease that nobody renews: it is
// after valid-until, before it, or neither is certain.
func observeEnd(t *testing.T, b backend, s *Store) (outlives, ends bool) {
	t.Helper()
	r := request("k")
	r.TTL = 2 * time.Second
	settled := grant(t, s, r)
	must.Succeed(t, s.Release(bounded(t), settled, lease.Result{}))
	r.Holder = request("k").Holder
	sent := time.Now()
	if _, err := s.Acquire(bounded(t), r); err != nil {
		t.Fatal(err)
	}
	validUntil := sent.Add(elect.NewTiming(r.TTL, r.TTL/3, 0).ValidUntil(0))
	time.Sleep(time.Until(validUntil) - 150*time.Millisecond)
	for {
		asked := time.Now()
		lives := b.do(t, "EXISTS", s.leaseKey("k")) == int64(1)
		switch {
		case !lives:
			return false, time.Now().Before(validUntil)
		case !asked.Before(validUntil):
			return true, false
		}
	}
}

// When a server's clock is set back by 80 days, tokens still grow, and ticks served in the
// future do not keep jobs from running.
func TestClockThatJumpsBack(t *testing.T) {
	server := script.StartRedis(t)
	server.SetClock("+40d")
	b := backend{addr: server.Addr, raw: rawClient(t, server.Addr)}
	s, r := open(t, b.addr), request("k")
	r.Period = time.Hour
	before := grant(t, s, r)
	must.Succeed(t, s.Release(bounded(t), before, lease.Result{Ran: true, Success: true}))
	server.SetClock("-40d")
	r.Holder = request("k").Holder
	after := grant(t, s, r)
	if after.Token <= before.Token || after.AcquiredAt > before.AcquiredAt-(79*days).Milliseconds() {
		t.Errorf("granted %+v, then %+v", before, after)
	}
}
