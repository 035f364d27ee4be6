package networktest

import (
	"context"
	"errors"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// Patience is how long tests wait for anything.
const Patience = must.Patience

// Bounded returns a context that ends with the test or after Patience.
func Bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Request returns the first attempt of a new candidate.
func Request(key string) lease.Request {
	return lease.Request{Key: key, Holder: lease.NewHolder("test", os.Getpid()), TTL: 30 * time.Second}
}

// Grant acquires r, and waits while the key settles.
func Grant(t testing.TB, s lease.Store, r lease.Request) lease.Lease {
	t.Helper()
	l, err := s.Acquire(Bounded(t), r)
	for settling := new(lease.SettlingError); errors.As(err, &settling); l, err = s.Acquire(Bounded(t), r) {
		time.Sleep(settling.Remaining + time.Millisecond)
	}
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return l
}

// Renew renews l.
func Renew(t testing.TB, s lease.Store, l lease.Lease) lease.Lease {
	t.Helper()
	l, err := s.Renew(Bounded(t), l)
	if err != nil {
		t.Fatalf("renew: %v", err)
	}
	return l
}

// Denied makes an attempt that another's lease denies.
func Denied(t testing.TB, s lease.Store, r lease.Request) *lease.HeldError {
	t.Helper()
	l, err := s.Acquire(Bounded(t), r)
	held, ok := errors.AsType[*lease.HeldError](err)
	if !ok {
		t.Fatalf("acquire: %+v, %v, want a denial", l, err)
	}
	return held
}

// Refused returns the error of an attempt to acquire the key k, which must fail.
func Refused(t testing.TB, s lease.Store) error {
	t.Helper()
	l, err := s.Acquire(Bounded(t), Request("k"))
	if err == nil {
		t.Fatalf("granted %+v", l)
	}
	return err
}

// NotRenewed returns the error of a renewal.
func NotRenewed(t testing.TB, s lease.Store, l lease.Lease) error {
	t.Helper()
	_, err := s.Renew(Bounded(t), l)
	if err == nil {
		t.Fatal("renewed")
	}
	return err
}

// Found returns the finding about a subject.
func Found(t testing.TB, findings []lease.Finding, subject string) lease.Finding {
	t.Helper()
	i := slices.IndexFunc(findings, func(f lease.Finding) bool { return f.Subject == subject })
	if i < 0 {
		t.Fatalf("nothing about %s in %+v", subject, findings)
	}
	return findings[i]
}

// Finds checks the verdict and the text, and that there is a hint unless all is well.
func Finds(t testing.TB, f lease.Finding, verdict lease.Verdict, text string) {
	t.Helper()
	if f.Verdict != verdict || !strings.Contains(f.Text, text) || (f.Hint == "") != (verdict == lease.Fine) {
		t.Errorf("%+v, want %s and %q", f, verdict, text)
	}
}

// FindsNoServer checks the only finding about an address where nobody listens.
func FindsNoServer(t testing.TB, findings []lease.Finding) {
	t.Helper()
	if len(findings) != 1 {
		t.Errorf("%+v", findings)
	}
	Finds(t, Found(t, findings, "server"), lease.Bad, "connection refused")
}

// Opened returns s, and closes it when the test ends.
func Opened[S lease.Store](t testing.TB, s S, err error) S {
	t.Helper()
	must.Succeed(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// As returns the address with another user, whose password is sesame.
func As(t testing.TB, address, user string) string {
	t.Helper()
	u, err := url.Parse(address)
	must.Succeed(t, err)
	u.User = url.UserPassword(user, "sesame")
	return u.String()
}

// Start starts a call, and returns a channel for its result.
func Start(call func() error) <-chan error {
	over := make(chan error, 1)
	go func() { over <- call() }()
	return over
}

// EndOf returns the result of a call that ends soon.
func EndOf(t testing.TB, over <-chan error) error {
	t.Helper()
	select {
	case err := <-over:
		return err
	case <-time.After(Patience):
		t.Fatal("the call is not over")
		return nil
	}
}

// Clock is the clock of a test's stores, and of the Date of answers: real time that the test
// can advance.
type Clock struct{ ahead atomic.Int64 }

// Advance advances it.
func (c *Clock) Advance(d time.Duration) { c.ahead.Add(int64(d)) }

// Set gives a store the clock.
func (c *Clock) Set(s *keep.Store) {
	began := time.Now()
	s.Now = func() time.Duration { return time.Since(began) + time.Duration(c.ahead.Load()) }
	s.Here = func() int64 { return time.Now().Add(time.Duration(c.ahead.Load())).UnixMilli() }
	s.Wall = func(ms int64) int64 {
		return time.UnixMilli(ms).Add(time.Duration(c.ahead.Load())).Truncate(time.Second).UnixMilli()
	}
}
