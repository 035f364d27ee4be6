package network

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// slowNames are a resolver whose first name server is dead.
type slowNames struct {
	takes   time.Duration
	fails   error // the first lookup
	lookups int
	ended   bool // a lookup ended with a context
}

func (n *slowNames) lookup(ctx context.Context, _ string) ([]net.IPAddr, error) {
	n.lookups++
	select {
	case <-time.After(n.takes):
	case <-ctx.Done():
		n.ended = true
	}
	if n.lookups == 1 && n.fails != nil {
		return nil, n.fails
	}
	return []net.IPAddr{{IP: net.IPv4(10, 0, 0, 1)}}, nil
}

// attempts asks like a candidate whose attempts last 2 s, with pauses of 5 s, and returns the
// number of the first one that is answered.
func attempts(t *testing.T, r *resolver) int {
	t.Helper()
	for n := 1; n < 10; n++ {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		ips, err := r.addresses(ctx, "store")
		cancel()
		if err == nil && len(ips) == 1 {
			return n
		}
		if dns, ok := errors.AsType[*net.DNSError](err); !ok || !dns.IsTimeout {
			t.Errorf("%v, want the timeout of a lookup", err)
		}
		time.Sleep(5 * time.Second)
	}
	return 0
}

func TestLookupOutlivesItsAttempt(t *testing.T) {
	for takes, want := range map[time.Duration]int{time.Second: 1, 5 * time.Second: 2, 10 * time.Second: 3, 19 * time.Second: 4} {
		synctest.Test(t, func(t *testing.T) {
			names := &slowNames{takes: takes}
			r := newResolver(names.lookup)
			if n := attempts(t, r); n != want || names.lookups != 1 || names.ended {
				t.Errorf("takes %s: answered by attempt %d, want %d, after %d lookups", takes, n, want, names.lookups)
			}
			if attempts(t, r); names.lookups != 2 {
				t.Errorf("takes %s: a result was used twice", takes)
			}
			synctest.Wait()
		})
	}
}

// A result that nobody has taken for long is not used, and neither is an error.
func TestLookupIsForgotten(t *testing.T) {
	for name, c := range map[string]struct {
		pause time.Duration
		fails error
	}{"old": {keepAddresses + 6*time.Second, nil}, "failed": {6 * time.Second, &net.DNSError{IsNotFound: true}}} {
		synctest.Test(t, func(t *testing.T) {
			names := &slowNames{takes: 5 * time.Second, fails: c.fails}
			r := newResolver(names.lookup)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := r.addresses(ctx, "store"); err == nil {
				t.Error("answered at once")
			}
			time.Sleep(c.pause)
			if _, err := r.addresses(t.Context(), "store"); err != nil || names.lookups != 2 {
				t.Errorf("%s: %d lookups, %v", name, names.lookups, err)
			}
		})
	}
}

// A leader's new connection is opened by an attempt that the lookup has outlived, too; hedged
// attempts share a lookup.
func TestHoldersLookupOutlivesItsAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names, h := &slowNames{takes: 5 * time.Second}, newHost(0)
		dial := Dialer(race(h.dial, newResolver(names.lookup).addresses))
		for n := 1; ; n++ {
			ctx, cancel := context.WithTimeout(Holder(t.Context()), 2*time.Second)
			c, err := dial(ctx, "tcp", "store:6379")
			cancel()
			if err == nil {
				_ = c.Close()
				if n != 3 || names.lookups != 1 {
					t.Errorf("answered by attempt %d after %d lookups", n, names.lookups)
				}
				break
			}
			if n == 10 {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
	})
}
