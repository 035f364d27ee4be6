package leasetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// wakeTests: what a standby waits for, and that no call outlives its context.
func wakeTests(h Harness) []test {
	tests := []test{{"a call with a context that has ended returns", endedContext}}
	if h.Stall != nil {
		tests = append(tests, test{"a store that does not answer is left when the context ends", stalledStore})
	}
	if !h.Wakes {
		return append(tests, test{"a store without wake-ups says so at once", noWakeups})
	}
	tests = append(tests,
		test{"a release wakes a standby", releaseWakes},
		test{"a release just before the wait wakes the standby", earlierReleaseWakes},
		test{"a renewal wakes nobody", renewalWakesNobody},
		test{"a key that settles wakes nobody", settlingWakesNobody},
		test{"a wait ends when its time is over", waitEnds},
		test{"a wait ends with its context", waitIsCancelled},
	)
	if h.WakesAll {
		return append(tests, test{"a release wakes every standby", releaseWakesAll})
	}
	return append(tests,
		test{"a wake-up passed on wakes a standby", passWakes},
		test{"a candidate that finds its tick done passes the wake-up on", donePasses},
	)
}

// soon is how long after the end of its context a call may still take.
const soon = 2 * time.Second

func endedContext(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	l := h.Grant(t, s, r)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	everyCall(t, s, ctx, r, l, func(string, error) {})
}

func stalledStore(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	l := h.Grant(t, s, r)
	resume := h.Stall(t, r.Key)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	everyCall(t, s, ctx, r, l, func(op string, err error) {
		if _, ok := errors.AsType[*lease.StoreError](err); !ok || errors.Is(err, lease.ErrLost) {
			t.Errorf("%s: error %v, want a *StoreError", op, err)
		}
	})
	resume()
	h.Grant(t, s, h.request())
}

// everyCall makes the calls that change something, all at the same time, and
// hands their errors to check.
func everyCall(t *testing.T, s lease.Store, ctx context.Context, r lease.Request, l lease.Lease, check func(op string, err error)) {
	t.Helper()
	calls := map[string]func() error{
		"acquire": func() error { _, err := s.Acquire(ctx, rival(r)); return err },
		"renew":   func() error { _, err := s.Renew(ctx, l); return err },
		"release": func() error { return s.Release(ctx, l, lease.Result{}) },
	}
	if o, ok := s.(lease.Admin); ok {
		calls["hand over"] = func() error { _, err := o.HandOver(ctx, r.Key); return err }
		calls["pause"] = func() error { _, err := o.Pause(ctx, r.Key, time.Hour, "", ""); return err }
		calls["resume"] = func() error { _, err := o.Resume(ctx, r.Key); return err }
		calls["forget"] = func() error { _, err := o.Forget(ctx, r.Key, false); return err }
		calls["revoke"] = func() error { _, err := o.Revoke(ctx, r.Key, true); return err }
	}
	type answer struct {
		op  string
		err error
	}
	answers := make(chan answer, len(calls))
	for op, call := range calls {
		go func() { answers <- answer{op, call()} }()
	}
	<-ctx.Done()
	late := time.After(soon)
	for range calls {
		select {
		case a := <-answers:
			check(a.op, a.err)
		case <-late:
			t.Fatalf("a call has not returned %s after its context ended", soon)
		}
	}
}

func noWakeups(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	h.Grant(t, s, r)
	if err := s.Wait(bounded(t), r.Key, time.Hour); !errors.Is(err, lease.ErrNoWakeups) {
		t.Errorf("wait: %v, want ErrNoWakeups", err)
	}
	must.Succeed(t, s.Pass(bounded(t), r.Key))
}

// wakes wants the waits of all standbys to return because of what cause does,
// which may be before they have begun.
func wakes(t *testing.T, standbys []lease.Store, key string, cause func()) {
	t.Helper()
	woke := make(chan error, len(standbys))
	for _, s := range standbys {
		go func() { woke <- s.Wait(bounded(t), key, 10*patience) }()
	}
	cause()
	late := time.After(patience / 2)
	for range standbys {
		select {
		case err := <-woke:
			if err != nil {
				t.Errorf("wait: %v", err)
			}
		case <-late:
			t.Fatal("a wait was not woken")
		}
	}
}

func releaseWakes(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	for _, result := range []lease.Result{succeeded, failed, notRun} {
		l := h.Grant(t, s, r)
		wakes(t, clients(t, h, 1), r.Key, func() { release(t, s, l, result) })
		r = rival(r)
	}
}

// Between a denial and the wait the holder may release: no later one would wake
// the standby.
func earlierReleaseWakes(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	release(t, s, h.Grant(t, s, r), succeeded)
	wakes(t, clients(t, h, 1), r.Key, func() {})
}

func releaseWakesAll(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	l := h.Grant(t, s, r)
	wakes(t, clients(t, h, 5), r.Key, func() { release(t, s, l, succeeded) })
	must.Succeed(t, s.Pass(bounded(t), r.Key))
}

func passWakes(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	h.Grant(t, s, r)
	wakes(t, clients(t, h, 1), r.Key, func() {
		must.Succeed(t, s.Pass(bounded(t), r.Key))
	})
}

func donePasses(t *testing.T, h Harness) {
	s, r := h.Open(t), h.ticking()
	l := h.Grant(t, s, r)
	wakes(t, clients(t, h, 1), r.Key, func() { release(t, s, l, succeeded) })
	wakes(t, clients(t, h, 1), r.Key, func() { r = rival(r); r.Waits = true; denies[*lease.DoneError](t, s, r) })
}

// waitsOn wants a wait to last for its time, whatever goes on meanwhile.
func waitsOn(t *testing.T, s lease.Store, key string, meanwhile func()) {
	t.Helper()
	const atMost = 500 * time.Millisecond
	began, over := time.Now(), make(chan error, 1)
	go func() { over <- s.Wait(bounded(t), key, atMost) }()
	for {
		select {
		case err := <-over:
			if took := time.Since(began); err != nil || took < atMost*9/10 {
				t.Errorf("a wait of %s was over after %s, error %v", atMost, took, err)
			}
			return
		case <-time.After(atMost / 10):
			meanwhile()
		}
	}
}

func renewalWakesNobody(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	l := h.Grant(t, s, r)
	waitsOn(t, h.Open(t), r.Key, func() { l = renew(t, s, l) })
}

// The candidate knows when to ask again; woken at once, it would ask and
// wait without a pause.
func settlingWakesNobody(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	r.TTL = h.Unit
	l := h.Grant(t, s, r)
	h.pass(2 * h.Unit) // no release, whose wake-up might still be there
	knowing := rival(r)
	knowing.Seen.Token, knowing.Seen.TTL = l.Token+1_000_000, h.long()
	settles(t, s, knowing)
	waitsOn(t, h.Open(t), r.Key, func() { settles(t, s, knowing) })
}

func waitEnds(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	h.Grant(t, s, r)
	began := time.Now()
	must.Succeed(t, s.Wait(bounded(t), r.Key, 200*time.Millisecond))
	if took := time.Since(began); took < 100*time.Millisecond || took > soon {
		t.Errorf("a wait of 200 ms took %s, and nobody woke it", took)
	}
}

func waitIsCancelled(t *testing.T, h Harness) {
	s, r := h.Open(t), h.request()
	h.Grant(t, s, r)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	_ = s.Wait(ctx, r.Key, 10*patience) // a hint: with or without an error
	if took := time.Since(began); took > soon {
		t.Errorf("a wait returned %s after it began, its context ended after 200 ms", took)
	}
}
