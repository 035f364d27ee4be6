// Package leasetest has the contract of [lease.Store] and [lease.Admin] as tests: [Run] checks
// each sentence of it, and [Histories] plays random calls of concurrent clients. Every store
// runs both from its own tests. Only tests may import this package. It knows no store: the
// differences between stores are fields of [Harness].
//
// It does not cover what is special to one technology: connections, which errors are
// permanent, failover.
package leasetest

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// Harness gives the suite access to a store and says what can be done to it. Its functions
// are called from the goroutine of a subtest and may end it. All after Settles damage the data:
// if one is nil, its subtests are left out.
type Harness struct {
	// Open returns another client of the same data, and closes it at the end of t. There
	// are several clients at a time, one per candidate.
	Open func(t *testing.T) lease.Store

	// Unit is the shortest TTL in use. In real time it is also the tolerance for a busy
	// machine (200 ms is fine); in simulated time it may be anything.
	Unit time.Duration

	// Advance lets the store's time pass. Nil means that the store runs in real
	// time: the suite sleeps, and runs its subtests in parallel.
	Advance func(d time.Duration)

	// Apart is how much longer a lease lasts for a client that has not watched it, where
	// the store's clocks may differ.
	Apart time.Duration

	// Wakes says that the store has wake-ups. Without it Wait must answer
	// ErrNoWakeups.
	Wakes bool

	// WakesAll says that a release wakes every standby. Otherwise it wakes one,
	// and a candidate that will not use its wake-up passes it on.
	WakesAll bool

	// Uncalled says that the store cannot call a holder. Then Listen must answer
	// ErrNoWakeups, and keys settle for two fifths of a TTL.
	Uncalled bool

	// Listens reports whether the store knows that a holder listens for key. Nil means
	// that a call waits until one does, or that the store cannot call.
	Listens func(t *testing.T, key string) bool

	// Settles says that Settle of the store's rules.Instant is not 0: a key that the store
	// does not know settles before it is granted, and so does one that was not released.
	Settles bool

	// Forget deletes the lease of key, but not what else the store knows about it. It may
	// be called from any goroutine.
	Forget func(t *testing.T, key string)

	// Wipe deletes everything, of all keys.
	Wipe func(t *testing.T)

	// Put writes value in the place of key's holder, without an expiry, as another program
	// would. Get reads it.
	Put func(t *testing.T, key, value string)
	Get func(t *testing.T, key string) string

	// Damage makes key unusable, each entry in its own way. Until it is repaired, the
	// store must return a permanent *lease.StoreError with a hint.
	Damage []Damage

	// Stall makes the store stop answering for key until resume is called.
	Stall func(t *testing.T, key string) (resume func())
}

// Damage is one way to make a key unusable.
type Damage struct {
	Name string
	Do   func(t *testing.T, key string)
}

type test struct {
	name string
	run  func(t *testing.T, h Harness)
}

// Run checks the whole contract against the store of h. Every subtest has new keys, so one
// server can serve all of them, even over many runs.
func Run(t *testing.T, h Harness) {
	if h.Wipe != nil { // a wipe deletes the keys of others, so it comes before the parallel tests
		run(t, h, wipeTests, false)
	}
	parallel := h.Advance == nil
	run(t, h, leaseTests, parallel)
	run(t, h, expiryTests, parallel)
	run(t, h, holdTests, parallel)
	run(t, h, tickTests, parallel)
	run(t, h, wakeTests(h), parallel)
	run(t, h, operateTests(h), parallel)
	run(t, h, pauseTests(h), parallel)
	run(t, h, offerTests(), parallel)
	run(t, h, forgetTests(h), parallel)
	run(t, h, candidateTests(h), parallel)
	run(t, h, hostileTests(h), parallel)
}

func run(t *testing.T, h Harness, tests []test, parallel bool) {
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			if parallel {
				t.Parallel()
			}
			c.run(t, h)
		})
	}
}

// Grant acquires r, which must succeed once the key has settled.
func (h Harness) Grant(t testing.TB, s lease.Store, r lease.Request) lease.Lease {
	t.Helper()
	for range 50 {
		l, err := s.Acquire(bounded(t), r)
		if settling, ok := errors.AsType[*lease.SettlingError](err); ok {
			h.pass(settling.Remaining + time.Millisecond)
			continue
		}
		if err != nil {
			t.Fatalf("acquire: %v, want a grant", err)
		}
		if l.Key != r.Key || l.Holder != r.Holder || l.TTL != r.TTL || l.Token <= 0 {
			t.Fatalf("granted %+v to %+v", l, r)
		}
		return l
	}
	t.Fatal("the key settles for ever")
	return lease.Lease{}
}

// pass lets the store's time pass.
func (h Harness) pass(d time.Duration) {
	if h.Advance != nil {
		h.Advance(d)
		return
	}
	time.Sleep(d)
}

// long is a TTL that no subtest outlives.
func (h Harness) long() time.Duration { return max(300*h.Unit, time.Minute) }

// request returns the first attempt of a new candidacy on a new key.
func (h Harness) request() lease.Request {
	return rival(lease.Request{Key: "test:" + rand.Text(), TTL: h.long()})
}

// rival returns r as another candidacy.
func rival(r lease.Request) lease.Request {
	r.Holder = lease.NewHolder("leasetest", os.Getpid())
	return r
}

// patience is how late an event may be on a busy machine.
const patience = 10 * time.Second

func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), must.Patience) // a grant may come after many conflicts
	t.Cleanup(cancel)
	return ctx
}

// Results of a run.
var (
	succeeded = lease.Result{Ran: true, Success: true}
	failed    = lease.Result{Ran: true, Exit: 3}
	notRun    = lease.Result{}
)

func renew(t *testing.T, s lease.Store, l lease.Lease) lease.Lease {
	t.Helper()
	renewed, err := s.Renew(bounded(t), l)
	if err != nil {
		t.Fatalf("renew: %v", err)
	}
	return renewed
}

func release(t *testing.T, s lease.Store, l lease.Lease, r lease.Result) {
	t.Helper()
	must.Succeed(t, s.Release(bounded(t), l, r))
}

// refused checks that the acquire fails with exactly this error.
func refused(t *testing.T, s lease.Store, r lease.Request, want error) {
	t.Helper()
	if l, err := s.Acquire(bounded(t), r); !errors.Is(err, want) {
		t.Fatalf("acquire: %+v, error %v, want error %v", l, err, want)
	}
}

// refusedLater checks for the error once the key has settled.
func (h Harness) refusedLater(t *testing.T, s lease.Store, r lease.Request, want error) {
	t.Helper()
	_, err := s.Acquire(bounded(t), r)
	for settling := new(lease.SettlingError); errors.As(err, &settling); _, err = s.Acquire(bounded(t), r) {
		h.pass(settling.Remaining + time.Millisecond)
	}
	if !errors.Is(err, want) {
		t.Fatalf("acquire: error %v, want error %v", err, want)
	}
}

// denies checks that the acquire fails with an error of type E, and returns it.
func denies[E error](t *testing.T, s lease.Store, r lease.Request) E {
	t.Helper()
	l, err := s.Acquire(bounded(t), r)
	denial, ok := errors.AsType[E](err)
	if !ok {
		t.Fatalf("acquire: %+v, error %v, want a %T", l, err, denial)
	}
	return denial
}

// held checks that the acquire is denied for this reason.
func held(t *testing.T, s lease.Store, r lease.Request, why lease.How) *lease.HeldError {
	t.Helper()
	denial := denies[*lease.HeldError](t, s, r)
	if denial.Why != why {
		t.Fatalf("acquire: %v, want it to be denied (%s)", denial, why)
	}
	return denial
}

// settles checks that the acquire is denied because the key settles.
func settles(t *testing.T, s lease.Store, r lease.Request) *lease.SettlingError {
	t.Helper()
	denial := denies[*lease.SettlingError](t, s, r)
	if denial.Remaining <= 0 {
		t.Fatalf("acquire: %v, and nothing remains", denial)
	}
	return denial
}

// releaseLost checks that a release returns ErrLost.
func releaseLost(t *testing.T, s lease.Store, l lease.Lease, r lease.Result) {
	t.Helper()
	if err := s.Release(bounded(t), l, r); !errors.Is(err, lease.ErrLost) {
		t.Errorf("release: %v, want ErrLost", err)
	}
}

// lost checks that a renewal returns ErrLost.
func lost(t *testing.T, s lease.Store, l lease.Lease) {
	t.Helper()
	if _, err := s.Renew(bounded(t), l); !errors.Is(err, lease.ErrLost) {
		t.Fatalf("renew: %v, want ErrLost", err)
	}
}
