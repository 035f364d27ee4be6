package networktest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network"
	"github.com/leaderrun/leaderrun/internal/test/faultnet"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// Calls are the calls of a store that ask its server, by their names in errors.
type Calls map[string]func(context.Context) error

// Store is what every networked store implements.
type Store interface {
	lease.Store
	lease.Admin
}

// CallsOf returns the calls of a store, for the key k.
func CallsOf[S Store](s S) Calls {
	r := lease.Request{Key: "k", Holder: lease.NewHolder("test", 1), TTL: 30 * time.Second}
	l := lease.Lease{Key: r.Key, Holder: r.Holder, Token: 1, TTL: r.TTL}
	return Calls{
		"acquire": func(ctx context.Context) error { _, err := s.Acquire(ctx, r); return err },
		"renew":   func(ctx context.Context) error { _, err := s.Renew(ctx, l); return err },
		"release": func(ctx context.Context) error { return s.Release(ctx, l, lease.Result{}) },
		"wait":    func(ctx context.Context) error { return s.Wait(ctx, r.Key, time.Minute) },
		"listen":  func(ctx context.Context) error { return s.Listen(ctx, r.Key) },

		"status":    func(ctx context.Context) error { _, err := s.Inspect(ctx, r.Key); return err },
		"list":      func(ctx context.Context) error { _, err := s.Keys(ctx); return err },
		"hand over": func(ctx context.Context) error { _, err := s.HandOver(ctx, r.Key); return err },
		"pause":     func(ctx context.Context) error { _, err := s.Pause(ctx, r.Key, time.Minute, "", ""); return err },
		"resume":    func(ctx context.Context) error { _, err := s.Resume(ctx, r.Key); return err },
		"forget":    func(ctx context.Context) error { _, err := s.Forget(ctx, r.Key, true); return err },
		"revoke":    func(ctx context.Context) error { _, err := s.Revoke(ctx, r.Key, true); return err },
	}
}

// TryOnce checks that each call fails after one try, as counted by tries: only the caller
// knows whether a call may be repeated. A holder dials again as long as nobody answers, so a
// call on a busy machine may have dialled more often.
func TryOnce(t *testing.T, calls Calls, tries func() int) {
	t.Helper()
	for range 3 {
		for op, call := range calls {
			before, began := tries(), time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), Patience)
			err := call(ctx)
			again := int(time.Since(began) / (100 * time.Millisecond))
			if n := tries() - before; err == nil || n < 1 || n > 1+again {
				t.Errorf("%s: error %v, %d tries", op, err, n)
			}
			cancel()
		}
	}
}

// Silent returns stores whose servers do not answer, by the reason. The server at addr stays
// frozen until the test ends.
func Silent[S Store](t *testing.T, addr string, freeze, thaw func(), open func(addr string) S) map[string]S {
	t.Helper()
	proxy, err := faultnet.Listen(addr)
	must.Succeed(t, err)
	t.Cleanup(proxy.Close)
	warm, hole := open(addr), open(proxy.Addr())
	Grant(t, warm, Request("warm"))
	Grant(t, hole, Request("hole"))
	freeze()
	t.Cleanup(thaw)
	must.Succeed(t, proxy.Set(faultnet.Swallow))
	return map[string]S{
		"accepts and never answers": open(NeverAnswers(t)),
		"packets vanish":            open(PacketsVanish(t)),
		"frozen, new connection":    open(addr),
		"frozen, warm connection":   warm,
		"black hole":                hole,
	}
}

// AllEndWithContext is EndWithContext for the calls of several stores.
func AllEndWithContext[S Store](t *testing.T, stores map[string]S, calls func(S) Calls) {
	t.Run("stores", func(t *testing.T) {
		for name, s := range stores {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				EndWithContext(t, calls(s))
			})
		}
	})
}

// WantClosed closes the store, and checks that each call then says so, and that a second
// Close does nothing.
func WantClosed(t *testing.T, s Store, calls Calls) {
	t.Helper()
	must.Succeed(t, s.Close())
	for op, call := range calls {
		if err := call(t.Context()); !errors.As(err, new(*lease.StoreError)) || !errors.Is(err, network.ErrClosed) {
			t.Errorf("%s after close: %v", op, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// WantNoAnswers checks that each call fails with a readable error if another kind of server
// answers.
func WantNoAnswers(t *testing.T, s Store) {
	t.Helper()
	for op, call := range CallsOf(s) {
		err := call(Bounded(t))
		if (op == "wait" || op == "listen") && errors.Is(err, lease.ErrNoWakeups) {
			continue
		}
		if !errors.As(err, new(*lease.StoreError)) {
			t.Errorf("%s: error %#v, want a *StoreError", op, err)
		}
		ForPeople(t, fmt.Sprint(err), "")
	}
}

// StandbyHasOneConnection checks that a standby uses one connection for its waits and for
// the requests in between. w counts its connections; waiting starts a call and returns once
// it waits.
func StandbyHasOneConnection(t *testing.T, holder, standby Store, w *Wire, within time.Duration, waiting func(call func() error) <-chan error) {
	t.Helper()
	for round := range 3 {
		l, r := Grant(t, holder, Request("k")), Request("k")
		if _, err := standby.Acquire(Bounded(t), r); !errors.As(err, new(*lease.HeldError)) {
			t.Fatal(err)
		}
		over := waiting(func() error { return standby.Wait(Bounded(t), "k", time.Minute) })
		began := time.Now()
		must.Succeed(t, holder.Release(Bounded(t), l, lease.Result{Ran: true}))
		if err := EndOf(t, over); err != nil || time.Since(began) > within {
			t.Errorf("round %d: over after %s: %v", round, time.Since(began), err)
		}
		must.Succeed(t, standby.Release(Bounded(t), Grant(t, standby, r), lease.Result{Ran: true}))
	}
	// An old wake-up does not wake it again.
	Grant(t, holder, Request("k"))
	const atMost = 200 * time.Millisecond
	began := time.Now()
	if err := standby.Wait(Bounded(t), "k", atMost); err != nil || time.Since(began) < atMost {
		t.Errorf("over after %s: %v", time.Since(began), err)
	}
	if n := w.Used(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// LoginIsReadAgain checks that a password, a certificate or the database can be changed while a
// command runs. Until both sides have the new one, a holder's calls fail temporarily, and those of a
// new store permanently. spoil changes one side and ends the connections, mend changes the
// other side.
func LoginIsReadAgain(t *testing.T, open func() Store, spoil, mend func(), says, hint string) {
	t.Helper()
	s := open()
	l := Grant(t, s, Request("k"))
	spoil()
	_, _ = s.Renew(Bounded(t), l) // fails: the connection has ended
	WantError(t, NotRenewed(t, s, l), false, says, hint)
	WantError(t, Refused(t, open()), true, says, hint)
	mend()
	if _, err := s.Renew(Bounded(t), l); err != nil {
		t.Error(err)
	}
}

// RightsComeBack checks that rights can be changed while a candidate stands by: until it has
// them back, its attempts fail temporarily if it had been answered before, and permanently if not.
// take takes the rights, and ends the connections if need be.
func RightsComeBack(t *testing.T, open func() Store, holder Store, take, give func(), says string) {
	t.Helper()
	if _, err := holder.Inspect(Bounded(t), "k"); err != nil {
		t.Fatal(err)
	}
	Grant(t, holder, Request("k"))
	standby, r := open(), Request("k")
	Denied(t, standby, r)
	take()
	_, _ = standby.Acquire(Bounded(t), r) // fails if the connection has ended
	_, err := standby.Acquire(Bounded(t), r)
	WantError(t, err, false, says, "")
	WantError(t, Refused(t, open()), true, says, "")
	give()
	_, _ = standby.Acquire(Bounded(t), r)
	Denied(t, standby, r)
}

// EndWithContext checks that each call, which gets no answer, ends with its context and says
// so.
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

// endsWith checks that a call ends with ctx, which ends 100 ms after began.
func endsWith(t *testing.T, ctx context.Context, began time.Time, op string, call func(context.Context) error, says string) {
	t.Helper()
	err := call(ctx)
	if took := time.Since(began); took < 90*time.Millisecond || took > 4*time.Second { // the clients' own limits are 5 s and more
		t.Errorf("returned after %s, the context ended after 100ms", took)
	}
	var failure *lease.StoreError
	if !errors.As(err, &failure) || failure.Permanent || failure.Refused || failure.Op != op || !strings.HasSuffix(err.Error(), ": "+says) {
		t.Errorf("error %v, want %q", err, says)
	}
}

// WantRefused checks that each call says that nothing listens at the server. server is the
// address as messages show it.
func WantRefused(t *testing.T, calls Calls, server string) {
	t.Helper()
	for range 3 {
		for op, call := range calls {
			err := call(t.Context())
			WantError(t, err, false, op+": "+server+": connection refused", "start it, or correct host and port in ")
			var failure *lease.StoreError
			if errors.As(err, &failure) && !failure.Refused {
				t.Errorf("%v: not refused", err)
			}
		}
	}
}

// RenewDuringWait checks that renewals work, on their own connection, while a standby's wait
// blocks. A request to wait contains the word waits.
func RenewDuringWait(t *testing.T, s lease.Store, l lease.Lease, w *Wire, waits string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	waited := Start(func() error { return s.Wait(ctx, l.Key, time.Minute) })
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
	if n := w.Used(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

// WantError checks a store's error: its text, its hint, whether it is permanent, and that it
// is one line without a password. The passwords of the tests are sesame and s3cret.
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

// ForPeople checks that an error and its hint fit on a terminal and show no password.
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

// Unreachable checks what a store at the host h says if it cannot reach its server: nothing
// listens, and each call tries once; or the host's name is unknown, or cannot be looked up
// now. place is where messages say that the host is named.
func Unreachable[S Store](t *testing.T, server, place string, open func(network.Dial) S, calls func(S) Calls) {
	t.Helper()
	var dials atomic.Int64 // addresses are dialled side by side
	refused := calls(open(func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}))
	WantRefused(t, refused, server)
	TryOnce(t, refused, func() int { return int(dials.Load()) })
	for says, dns := range map[string]*net.DNSError{
		"no such host": {Err: "no such host", Name: "h", Server: "192.0.2.1:53", IsNotFound: true},
		"the name of the host cannot be looked up now": {Err: "server misbehaving", Name: "h", Server: "192.0.2.1:53"},
	} {
		err := Refused(t, open(func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: dns}
		}))
		WantError(t, err, false, "acquire: "+server+": "+says, "check the host in "+place+", and DNS on this host: /etc/resolv.conf")
		if strings.Contains(err.Error(), "dial") {
			t.Errorf("not for people: %v", err)
		}
	}
}
