package leasetest

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// leaseTests: grant, renewal, release, expiry.
var leaseTests = []test{
	{"one of many candidates is granted", oneIsGranted},
	{"never two holders at a time", neverTwoHolders},
	{"keys do not touch each other", keysAreSeparate},
	{"a holder that asks again gets the same grant", acquireIsIdempotent},
	{"a holder that has released is never granted again", releasedForGood},
	{"a denial says who holds the key and for how long", denialSaysWho},
	{"a denial says since when the key is held", denialSaysSince},
	{"the holder's own ttl counts", holdersTTLCounts},
	{"tokens increase", tokensIncrease},
	{"a renewal extends the lease", renewalExtends},
	{"a renewal compares holder and token", renewalCompares},
	{"a renewal after the release is lost", renewalAfterRelease},
	{"a renewal after the expiry brings it back", renewalAfterExpiry},
	{"a renewal after another grant is lost", renewalAfterAnotherGrant},
	{"a release frees the key at once", releaseFrees},
	{"a release compares holder and token", releaseCompares},
	{"a release can be repeated", releaseRepeats},
	{"a release after the expiry is harmless", releaseAfterExpiry},
	{"a token from elsewhere that is larger is waited out", largerTokenSeen},
	{"close releases nothing", closeReleasesNothing},
}

func oneIsGranted(t *testing.T, h Harness) {
	stores := clients(t, h, 8)
	for range 5 {
		r := h.request()
		release(t, stores[0], h.Grant(t, stores[0], r), succeeded) // known from now on: it does not settle
		var grants, denials atomic.Int32
		atOnce(t, stores, func(s lease.Store) {
			_, err := s.Acquire(bounded(t), rival(r))
			var denied *lease.HeldError
			switch {
			case err == nil:
				grants.Add(1)
			case errors.As(err, &denied):
				denials.Add(1)
			default:
				t.Errorf("acquire: %v", err)
			}
		})
		if grants.Load() != 1 || denials.Load() != 7 {
			t.Fatalf("%d granted and %d denied of 8", grants.Load(), denials.Load())
		}
	}
}

func neverTwoHolders(t *testing.T, h Harness) {
	const candidates, rounds = 6, 3
	stores, r := clients(t, h, candidates), h.request()
	last := h.Grant(t, stores[0], r)
	release(t, stores[0], last, succeeded)

	var inside, runs atomic.Int32
	newest := last.Token // guarded by the lease: the race detector watches it
	atOnce(t, stores, func(s lease.Store) {
		for range rounds {
			l, ok := standBy(t, s, rival(r))
			if !ok {
				return
			}
			if n := inside.Add(1); n != 1 {
				t.Errorf("%d holders at a time", n)
			}
			if l.Token <= newest {
				t.Errorf("token %d after %d", l.Token, newest)
			}
			newest = l.Token
			runs.Add(1)
			inside.Add(-1)
			must.Succeed(t, s.Release(bounded(t), l, succeeded))
		}
	})
	if runs.Load() != candidates*rounds {
		t.Errorf("%d runs of %d", runs.Load(), candidates*rounds)
	}
}

// standBy asks until it is granted, even if many others come first.
func standBy(t *testing.T, s lease.Store, r lease.Request) (lease.Lease, bool) {
	for {
		ctx := bounded(t)
		l, err := s.Acquire(ctx, r)
		if _, ok := errors.AsType[*lease.HeldError](err); !ok {
			if err != nil {
				t.Errorf("acquire: %v", err)
			}
			return l, err == nil
		}
		if errors.Is(s.Wait(ctx, r.Key, 100*time.Millisecond), lease.ErrNoWakeups) {
			time.Sleep(2 * time.Millisecond)
		}
	}
}

func clients(t *testing.T, h Harness, n int) []lease.Store {
	stores := make([]lease.Store, n)
	for i := range stores {
		stores[i] = h.Open(t)
	}
	return stores
}

// atOnce runs f concurrently with each of the stores and waits for all.
func atOnce(t *testing.T, stores []lease.Store, f func(lease.Store)) {
	t.Helper()
	start := make(chan struct{})
	var end sync.WaitGroup
	for _, s := range stores {
		end.Go(func() {
			<-start
			f(s)
		})
	}
	close(start)
	end.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func keysAreSeparate(t *testing.T, h Harness) {
	s := h.Open(t)
	base := h.request().Key
	for _, suffix := range []string{"", ":x", ".x", "-x", "_x", "/x", "//x", "/x/", "/.", "/..", "/../x", "/..x", ".lock", ".json", ".tmp",
		"/" + strings.Repeat("x", 200-1-len(base))} {
		r := h.request()
		r.Key = base + suffix
		defer release(t, s, h.Grant(t, s, r), succeeded)
	}
}

func acquireIsIdempotent(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	r.TTL = 8 * h.Unit
	first := h.Grant(t, s, r)
	h.pass(5 * h.Unit)
	r.Tick = first.Tick + 12345
	again := h.Grant(t, h.Open(t), r)
	if again.Token != first.Token || again.Tick != first.Tick || again.AcquiredAt != first.AcquiredAt {
		t.Errorf("granted %+v, then %+v", first, again)
	}
	h.pass(5 * h.Unit)
	held(t, s, rival(r), lease.Held)
}

func releasedForGood(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	release(t, s, h.Grant(t, s, r), succeeded)
	refused(t, s, r, lease.ErrReleased)

	other := rival(r)
	l := h.Grant(t, s, other)
	refused(t, s, r, lease.ErrReleased)
	release(t, s, l, notRun)
	refused(t, s, other, lease.ErrReleased)
	refused(t, s, r, lease.ErrReleased)
}

func denialSaysWho(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	l := h.Grant(t, s, r)
	h.pass(h.Unit)
	denied := held(t, h.Open(t), rival(r), lease.Held)
	if denied.Value != string(r.Holder) || denied.Token != l.Token || denied.TTL != r.TTL {
		t.Errorf("denied by %+v, the holder has %+v", denied, l)
	}
	if denied.Remaining <= 0 || denied.Remaining > r.TTL-h.Unit+h.Apart {
		t.Errorf("%s left of %s after %s", denied.Remaining, r.TTL, h.Unit)
	}
}

func denialSaysSince(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	began := time.Now()
	l := h.Grant(t, s, r)
	first := held(t, s, rival(r), lease.Held).Since
	if took := time.Since(began); first < 0 || first > took+h.Unit {
		t.Errorf("held for %s right after the grant", first)
	}
	h.pass(2 * h.Unit)
	renew(t, s, l) // is not when it began
	if later := held(t, s, rival(r), lease.Held).Since; later < first+h.Unit {
		t.Errorf("held for %s, and %s later for %s", first, 2*h.Unit, later)
	}
}

func holdersTTLCounts(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	h.Grant(t, s, r)
	hasty := rival(r)
	hasty.TTL = h.Unit
	held(t, s, hasty, lease.Held)
	h.pass(2 * h.Unit)
	if denied := held(t, s, hasty, lease.Held); denied.TTL != r.TTL {
		t.Errorf("the holder's ttl is %s, not %s", denied.TTL, r.TTL)
	}

	r = h.request()
	r.TTL = h.Unit
	h.Grant(t, s, r)
	patient := rival(r)
	patient.TTL = h.long()
	for range 12 { // asking must not prolong the lease
		_, _ = s.Acquire(bounded(t), patient)
		h.pass(h.Unit / 4)
	}
	h.Grant(t, s, patient)
}

func tokensIncrease(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	last := h.Grant(t, s, r)
	next := func(after string, r lease.Request) {
		t.Helper()
		l := h.Grant(t, s, r)
		if l.Token <= last.Token {
			t.Errorf("token %d after %s, %d before", l.Token, after, last.Token)
		}
		last = l
	}
	for range 20 { // faster than the clock ticks
		release(t, s, last, succeeded)
		next("a release", rival(r))
	}
	release(t, s, last, notRun)
	brief := rival(r)
	brief.TTL = h.Unit
	next("a release without a run", brief)
	h.pass(2 * h.Unit)
	next("an expiry", rival(r))
}

func renewalExtends(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	r.TTL = 8 * h.Unit
	l := h.Grant(t, s, r)
	h.pass(5 * h.Unit)
	renewed := renew(t, s, l)
	if renewed != l {
		t.Errorf("a renewal changed %+v to %+v", l, renewed)
	}
	h.pass(5 * h.Unit)
	held(t, s, rival(r), lease.Held)
}

func renewalCompares(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	l := h.Grant(t, s, r)
	older, foreign := l, l
	older.Token--
	foreign.Holder = rival(r).Holder
	lost(t, s, older)
	lost(t, s, foreign)
	foreign.Token++ // a token alone proves nothing
	lost(t, s, foreign)
	renew(t, s, l)
}

func renewalAfterRelease(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	l := h.Grant(t, s, r)
	release(t, s, l, succeeded)
	lost(t, s, l)
	h.Grant(t, s, rival(r))
}

func renewalAfterExpiry(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	r.TTL = max(h.Unit, time.Second) // the rival below must come before its end
	l := h.Grant(t, s, r)
	h.pass(2 * r.TTL)
	if back := renew(t, s, l); !back.Reasserted || back.Token != l.Token {
		t.Errorf("nobody was granted it since, and it came back as %+v", back)
	}
	held(t, s, rival(r), lease.Held)
	h.pass(2 * r.TTL)
	h.Grant(t, s, rival(r))
	lost(t, s, l)
}

func renewalAfterAnotherGrant(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	brief := r
	brief.TTL = h.Unit
	first := h.Grant(t, s, brief)
	h.pass(2 * h.Unit)
	second := h.Grant(t, s, rival(r))
	lost(t, s, first)
	renew(t, s, second)
	release(t, s, second, succeeded)
	lost(t, s, first)
}

func releaseFrees(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	for _, result := range []lease.Result{succeeded, failed, notRun} {
		release(t, s, h.Grant(t, s, r), result)
		r = rival(r)
	}
	if _, err := s.Acquire(bounded(t), r); err != nil {
		t.Errorf("acquire after a release: %v", err)
	}
}

func releaseCompares(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	l := h.Grant(t, s, r)
	older, foreign := l, l
	older.Token--
	foreign.Holder = rival(r).Holder
	for _, l := range []lease.Lease{older, foreign} {
		releaseLost(t, s, l, succeeded)
	}
	held(t, s, rival(r), lease.Held)
	renew(t, s, l)
}

// A release is repeated if its reply got lost. It succeeds as long as nobody else holds the
// key.
func releaseRepeats(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	l := h.Grant(t, s, r)
	release(t, s, l, succeeded)
	release(t, s, l, succeeded)

	next := h.Grant(t, s, rival(r))
	releaseLost(t, s, l, succeeded)
	renew(t, s, next)
	release(t, s, next, succeeded)
	release(t, s, l, succeeded)
}

func releaseAfterExpiry(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	brief := r
	brief.TTL = h.Unit
	l := h.Grant(t, s, brief)
	h.pass(2 * h.Unit)
	release(t, s, l, succeeded)
	refused(t, s, brief, lease.ErrReleased)
	h.Grant(t, s, rival(r))
}

func largerTokenSeen(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	l := h.Grant(t, s, r)
	release(t, s, l, succeeded)
	for range 2 { // each time anew
		knowing := rival(r)
		knowing.Seen.Token, knowing.Seen.TTL = l.Token+1_000_000, 4*h.Unit
		settling := settles(t, s, knowing)
		if settling.Settle != lease.SettleRollback || settling.Remaining > max(knowing.Seen.TTL, time.Second)+h.Unit {
			t.Errorf("settles: %v, the holder's ttl is %s", settling, knowing.Seen.TTL)
		}
		settling = settles(t, s, knowing) // counted from the first answer, if that was slow
		h.pass(settling.Remaining / 4)
		if again := settles(t, s, knowing); again.Remaining >= settling.Remaining {
			t.Errorf("settles for %s, later for %s", settling.Remaining, again.Remaining)
		}
		if l = h.Grant(t, s, knowing); l.Token <= knowing.Seen.Token {
			t.Errorf("token %d, although %d was seen", l.Token, knowing.Seen.Token)
		}
		release(t, s, l, succeeded)
	}
}

func closeReleasesNothing(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	l := h.Grant(t, s, r)
	must.Succeed(t, s.Close())
	other := h.Open(t)
	held(t, other, rival(r), lease.Held)
	renew(t, other, l)
}
