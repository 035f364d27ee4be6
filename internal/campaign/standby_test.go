package campaign

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

func TestStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		free := w.start.Add(7 * time.Second)
		woken := make(chan struct{}, 1)
		var seen lease.Seen
		w.acquire = func(_ context.Context, r lease.Request) (lease.Lease, error) {
			if time.Now().Before(free) {
				return lease.Lease{}, &lease.HeldError{Condition: lease.Condition{Why: lease.Held, Token: 5, TTL: 30 * time.Second, Expires: 90, Remaining: 20 * time.Second}}
			}
			seen = r.Seen
			return lease.Lease{Token: r.Seen.Token + 1}, nil
		}
		w.wait = func(ctx context.Context) error {
			select {
			case <-woken:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		go func() { time.Sleep(7 * time.Second); woken <- struct{}{} }()
		w.command = lasts(time.Second, 0)
		set := w.settings()
		set.Wait = time.Minute
		r := Run(t.Context(), set, w, w, w)
		w.expect("0.0 acquire", "7.0 acquire", "7.0 start", "8.0 gone", "8.0 release")
		if want := (lease.Seen{Token: 5, TTL: 30 * time.Second, Expires: 90, Left: 13 * time.Second}); seen != want || r.Lease.Token != 6 {
			t.Errorf("asked knowing of %+v, want %+v; token %d", seen, want, r.Lease.Token)
		}
	})
}

// A wait that is cancelled by the candidate's own timer must not count as the answer to
// the next request.
func TestOwnTimerAtExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.acquire = func(ctx context.Context, r lease.Request) (lease.Lease, error) {
			time.Sleep(50 * time.Millisecond)
			if left := 20*time.Second - time.Since(w.start); left > 0 {
				return lease.Lease{}, &lease.HeldError{Condition: lease.Condition{Why: lease.Held, Remaining: left}}
			}
			return lease.Lease{Token: 1}, nil
		}
		w.wait = silent
		w.command = lasts(time.Second, 0)
		set := w.settings()
		set.Wait = time.Minute
		Run(t.Context(), set, w, w, w)
		w.expect("0.0 acquire", "19.6 acquire", "20.0 acquire", "20.1 start", "21.1 gone", "21.1 release")
	})
}

// A store that comes back without this candidate's lease must not grant its token again.
func TestRejoinKnowsItsOwnToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		answers := []any{
			&lease.HeldError{Condition: lease.Condition{Why: lease.Held, Token: 6, TTL: 30 * time.Second, Expires: 90, Remaining: 20 * time.Second}},
			lease.Lease{Token: 7, TTL: 10 * time.Second},
			&lease.HeldError{Condition: lease.Condition{Why: lease.Held, Token: 5, TTL: 30 * time.Second, Expires: 95, Remaining: 20 * time.Second}},
		}
		var knew []lease.Seen
		w.acquire = func(_ context.Context, r lease.Request) (lease.Lease, error) {
			if r.Seen.Token != 0 { // without one there is no time left
				r.Seen.Left = 0
			}
			knew = append(knew, r.Seen)
			if len(knew) > len(answers) {
				return lease.Lease{}, &lease.DoneError{Condition: lease.Condition{Why: lease.Served}}
			}
			l, _ := answers[len(knew)-1].(lease.Lease)
			err, _ := answers[len(knew)-1].(error)
			return l, err
		}
		w.renew = func(_ context.Context, l lease.Lease) (lease.Lease, error) { return l, lease.ErrLost }
		w.command = lasts(time.Hour, 0)
		set := w.settings()
		set.Rejoin, set.Wait = true, 2*time.Minute
		Run(t.Context(), set, w, w, w)
		another := lease.Seen{Token: 6, TTL: 30 * time.Second, Expires: 90}
		own := lease.Seen{Token: 7, TTL: 10 * time.Second}
		if want := []lease.Seen{{}, another, own, own}; !slices.Equal(knew, want) {
			t.Errorf("asked knowing of\n%+v\nwant\n%+v", knew, want)
		}
	})
}

// A candidate keeps what the first denial said about a lease until the lease is renewed:
// the store's clock may be set meanwhile. Its requests say that it stands by.
func TestKnownLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		denials := []lease.Condition{
			{Token: 5, Expires: 90, Remaining: 30 * time.Second},
			{Token: 5, Expires: 90, Remaining: 60 * time.Second}, // the clock was set back
			{Token: 5, Expires: 95, Remaining: 30 * time.Second}, // renewed
			{Token: 4, Expires: 99, Remaining: 60 * time.Second}, // the store has lost data
		}
		var knew []lease.Seen
		w.acquire = func(_ context.Context, r lease.Request) (lease.Lease, error) {
			if !r.Waits {
				t.Error("it does not say that it stands by")
			}
			r.Seen.Left = r.Seen.Left.Round(time.Second) // the pauses vary
			knew = append(knew, r.Seen)
			if len(denials) == 0 {
				return lease.Lease{}, &lease.DoneError{Condition: lease.Condition{Why: lease.Served}}
			}
			denial := denials[0]
			denials = denials[1:]
			denial.Why = lease.Held
			return lease.Lease{}, &lease.HeldError{Condition: denial}
		}
		set := w.settings()
		set.Wait = time.Minute
		Run(t.Context(), set, w, w, w)
		want := []lease.Seen{ // asked every 5 s
			{},
			{Token: 5, Expires: 90, Left: 25 * time.Second},
			{Token: 5, Expires: 90, Left: 20 * time.Second},
			{Token: 5, Expires: 95, Left: 25 * time.Second},
			{Token: 5, Expires: 95, Left: 20 * time.Second},
		}
		if !slices.Equal(knew, want) {
			t.Errorf("asked knowing of\n%+v\nwant\n%+v", knew, want)
		}
	})
}

// A new request cancels the previous one, which would keep a connection.
func TestWaitEndsWithTheNextAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.acquire = func(_ context.Context, r lease.Request) (lease.Lease, error) {
			if left := 20*time.Second - time.Since(w.start); left > 0 {
				return lease.Lease{}, &lease.HeldError{Condition: lease.Condition{Why: lease.Held, Remaining: left}}
			}
			return lease.Lease{Token: 1}, nil
		}
		var given []string
		w.wait = func(ctx context.Context) error {
			err := silent(ctx)
			given = append(given, fmt.Sprintf("%.1f", time.Since(w.start).Seconds()))
			return err
		}
		w.command = lasts(time.Minute, 0)
		set := w.settings()
		set.Wait = time.Minute
		Run(t.Context(), set, w, w, w)
		if want := []string{"19.6", "20.0"}; !slices.Equal(given, want) {
			t.Errorf("waits ended at %q, want %q", given, want)
		}
	})
}

// Candidates that start together do not ask a failed store at the same times.
func TestPausesAreACandidatesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := map[time.Duration]bool{}
		for _, holder := range []lease.Holder{"a", "b", "c"} {
			w := newWorld(t)
			times := 0
			w.acquire = func(context.Context, lease.Request) (lease.Lease, error) {
				if times++; times == 2 {
					asked[time.Since(w.start)] = true
				}
				return lease.Lease{}, &lease.StoreError{Op: "acquire", Err: errors.New("down")}
			}
			set := w.settings()
			set.Wait, set.NewHolder = 20*time.Second, func() lease.Holder { return holder }
			Run(t.Context(), set, w, w, w)
		}
		if len(asked) != 3 {
			t.Errorf("three candidates asked again after %v", asked)
		}
	})
}
