package networktest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// Calls are the calls of a store that ask its server, by the name that their errors have.
type Calls map[string]func(context.Context) error

// CallsOf returns the calls that all stores make. The key is k.
func CallsOf(s interface {
	lease.Store
	lease.Admin
}) Calls {
	r := lease.Request{Key: "k", Holder: lease.NewHolder("test", 1), TTL: 30 * time.Second}
	l := lease.Lease{Key: r.Key, Holder: r.Holder, Token: 1, TTL: r.TTL}
	return Calls{
		"acquire": func(ctx context.Context) error { _, err := s.Acquire(ctx, r); return err },
		"renew":   func(ctx context.Context) error { _, err := s.Renew(ctx, l); return err },
		"release": func(ctx context.Context) error { return s.Release(ctx, l, lease.Result{}) },
		"wait":    func(ctx context.Context) error { return s.Wait(ctx, r.Key, time.Minute) },

		"status":    func(ctx context.Context) error { _, err := s.Inspect(ctx, r.Key); return err },
		"list":      func(ctx context.Context) error { _, err := s.Keys(ctx); return err },
		"hand over": func(ctx context.Context) error { _, err := s.HandOver(ctx, r.Key); return err },
		"pause":     func(ctx context.Context) error { _, err := s.Pause(ctx, r.Key, time.Minute, "", ""); return err },
		"resume":    func(ctx context.Context) error { _, err := s.Resume(ctx, r.Key); return err },
		"forget":    func(ctx context.Context) error { _, err := s.Forget(ctx, r.Key, true); return err },
		"revoke":    func(ctx context.Context) error { _, err := s.Revoke(ctx, r.Key, true); return err },
	}
}

// TryOnce wants each call to fail after one try, which tries counts: trying again is the
// decision of the caller, who knows whether it may.
func TryOnce(t *testing.T, calls Calls, tries func() int) {
	t.Helper()
	for range 3 {
		for op, call := range calls {
			before := tries()
			ctx, cancel := context.WithTimeout(t.Context(), Patience)
			if err := call(ctx); err == nil || tries() != before+1 {
				t.Errorf("%s: error %v, %d tries", op, err, tries()-before)
			}
			cancel()
		}
	}
}

// Refusing is a dialer of which every dial is refused.
type Refusing struct{ dials int }

// Dial fails.
func (r *Refusing) Dial(context.Context, string, string) (net.Conn, error) {
	r.dials++
	return nil, syscall.ECONNREFUSED
}

// Dials returns how often it was called.
func (r *Refusing) Dials() int { return r.dials }

// EndWithContext wants each call, which gets no answer, to end with its context and to
// say so.
func EndWithContext(t *testing.T, calls Calls) {
	for op, call := range calls {
		t.Run(op+"/deadline", func(t *testing.T) {
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			endsWith(t, ctx, began, op, call, "no answer in time")
		})
		t.Run(op+"/cancel", func(t *testing.T) {
			began := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(100*time.Millisecond, cancel)
			endsWith(t, ctx, began, op, call, "given up before an answer came")
		})
	}
}

// endsWith wants a call to end with ctx, which ends 100 ms after began.
func endsWith(t *testing.T, ctx context.Context, began time.Time, op string, call func(context.Context) error, says string) {
	t.Helper()
	err := call(ctx)
	if took := time.Since(began); took < 90*time.Millisecond || took > 4*time.Second { // without an end of their own, the clients take 5 s and more
		t.Errorf("returned after %s, the context ended after 100ms", took)
	}
	var failure *lease.StoreError
	if !errors.As(err, &failure) || failure.Permanent || failure.Refused || failure.Op != op || !strings.HasSuffix(err.Error(), ": "+says) {
		t.Errorf("error %v, want %q", err, says)
	}
}

// WantRefused wants each call to say that nobody listens at the server, its address
// being as messages show it.
func WantRefused(t *testing.T, calls Calls, server string) {
	t.Helper()
	for range 3 {
		for op, call := range calls {
			err := call(t.Context())
			WantError(t, err, false, op+": "+server+": connection refused", "start it, or name the store with --store")
			var failure *lease.StoreError
			if errors.As(err, &failure) && !failure.Refused {
				t.Errorf("%v: not refused", err)
			}
		}
	}
}

// RenewDuringWait wants renewals to work, on a connection of their own, while a
// standby's wait blocks. The server is asked to wait by the word waits.
func RenewDuringWait(t *testing.T, s lease.Store, l lease.Lease, w *Wire, waits string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error)
	go func() { waited <- s.Wait(ctx, l.Key, time.Minute) }()
	for until := time.Now().Add(Patience); !strings.Contains(w.Sent(), waits); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("it has not sent %s", waits)
		}
	}
	for range 3 {
		renewing, done := context.WithTimeout(t.Context(), 5*time.Second)
		if _, err := s.Renew(renewing, l); err != nil {
			t.Errorf("renew while a wait blocks: %v", err)
		}
		done()
	}
	cancel()
	<-waited
	if n := w.Dials(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

// WantError checks a store's error: what it says, its hint, and whether trying again
// is of no use. It is one line and has no password; those of the tests are sesame and
// s3cret.
func WantError(t *testing.T, err error, permanent bool, says, hint string) {
	t.Helper()
	var failure *lease.StoreError
	if !errors.As(err, &failure) {
		t.Fatalf("error %v, want a *StoreError: %s", err, says)
	}
	if failure.Permanent != permanent {
		t.Errorf("%v: permanent %t, want %t", err, failure.Permanent, permanent)
	}
	if !strings.Contains(err.Error(), says) || !strings.Contains(failure.Hint, hint) {
		t.Errorf("says %q, hint %q; want %q and %q", err, failure.Hint, says, hint)
	}
	ForPeople(t, fmt.Sprint(err), failure.Hint)
}

// ForPeople wants an error and its hint to fit on a terminal, without a password.
func ForPeople(t *testing.T, text, hint string) {
	t.Helper()
	line := text + hint
	for _, secret := range []string{"sesame", "s3cret", "script:"} {
		if strings.Contains(line, secret) {
			t.Errorf("it shows %q: %q", secret, line)
		}
	}
	if len(text) > 300 || strings.ContainsFunc(line, unicode.IsControl) {
		t.Errorf("not for people: %q", line)
	}
}

// WantNamesLookedUp wants a store at host h to say that the host's name is unknown, or
// cannot be looked up, which may pass.
func WantNamesLookedUp(t *testing.T, server string, acquire func(t *testing.T, dial func(context.Context, string, string) (net.Conn, error)) error) {
	t.Helper()
	for says, dns := range map[string]*net.DNSError{
		"no such host": {Err: "no such host", Name: "h", Server: "192.0.2.1:53", IsNotFound: true},
		"the name of the host cannot be looked up now": {Err: "server misbehaving", Name: "h", Server: "192.0.2.1:53"},
	} {
		err := acquire(t, func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: dns}
		})
		WantError(t, err, false, "acquire: "+server+": "+says, "check the host in the store's URL, and DNS on this host: /etc/resolv.conf")
		if strings.Contains(err.Error(), "dial") {
			t.Errorf("not for people: %v", err)
		}
	}
}
