// Package doctor finds out whether runs can work: it leads for a moment like a run, and
// runs a command that does nothing. It guarantees to leave nothing behind, not even
// its key if the store lets it forget that, and to run nothing else.
//
// It returns findings and prints nothing. Only package cmd imports it.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/runner"
)

// Store is the store to examine.
type Store interface {
	lease.Store
	lease.Admin
}

// Key is the key under which the doctor leads. It is always the same, since a store may
// remember it for weeks.
const Key = "leaderrun-doctor"

// Examine leads for a moment as holder, tries every verb that a run needs, and asks the
// store how its servers are set up.
func Examine(ctx context.Context, store Store, holder lease.Holder, t elect.Timing) []lease.Finding {
	const longest = 10 * time.Second // where holders cannot be called a key settles for a part of it
	l, err := acquire(ctx, store, lease.Request{Key: Key, Holder: holder, TTL: min(t.TTL, longest), Meta: `{"command":"leaderrun doctor"}`})
	var held *lease.HeldError
	switch {
	case errors.As(err, &held):
		return []lease.Finding{lease.Warned("rights", fmt.Sprintf("not tried: another doctor has the key %s: %q", Key, held.Value),
			fmt.Sprintf("try again, after %s at most", held.Remaining.Round(time.Second)))}
	case err != nil:
		return []lease.Finding{lease.Broken("store", err)}
	}
	findings := verbs(ctx, store, l, t)
	_, _ = store.Forget(ctx, Key, true) // if it may not, the key stays; a run never needs that right
	if examiner, ok := store.(lease.Examiner); ok {
		findings = append(findings, examiner.Examine(ctx, t.Outage(), t.Margin)...)
	}
	return findings
}

func acquire(ctx context.Context, store Store, r lease.Request) (lease.Lease, error) {
	for {
		l, err := store.Acquire(ctx, r)
		var settling *lease.SettlingError
		if !errors.As(err, &settling) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return l, err
		case <-time.After(settling.Remaining):
		}
	}
}

// verbs tries the verbs that a run calls after acquire: each may need its own right.
func verbs(ctx context.Context, store Store, l lease.Lease, t elect.Timing) []lease.Finding {
	took, renewErr := renewals(ctx, store, l, renewalSpan)
	listening, unlisten := context.WithCancel(ctx)
	defer unlisten()
	called, waited := make(chan error, 1), make(chan error, 1)
	go func() { called <- store.Listen(listening, Key) }()
	go func() { waited <- store.Wait(ctx, Key, clockSpan) }()
	gained, elapsed, clockErr := drift(ctx, store) // takes clockSpan, in which the listener connects
	_, handOverErr := store.HandOver(ctx, Key)     // calls the holder
	time.AfterFunc(time.Second, unlisten)
	heard := <-called == nil
	waitErr := <-waited
	if errors.Is(waitErr, lease.ErrNoWakeups) {
		heard, waitErr = false, nil
	}
	passErr := store.Pass(ctx, Key)
	releaseErr := store.Release(ctx, l, lease.Result{Ran: true, Success: true})
	var findings []lease.Finding
	for _, err := range []error{renewErr, clockErr, handOverErr, waitErr, passErr, releaseErr} {
		if err != nil {
			findings = append(findings, lease.Broken("rights", err))
		}
	}
	if len(findings) > 0 {
		return findings
	}
	return []lease.Finding{
		lease.Passed("rights", "acquire, renew, status, hand over, wait and release work"),
		wakeups(heard), history(ctx, store, l), listing(ctx, store), latency(took[len(took)/2], took[len(took)-1], t), clock(gained, elapsed, t),
	}
}

// renewalSpan bounds the measured renewals, so that a slow store leaves time for the
// other checks.
const renewalSpan = time.Second

// renewals returns how long renewals take, in ascending order: 20 of them, or as many as
// start within span.
func renewals(ctx context.Context, store Store, l lease.Lease, span time.Duration) ([]time.Duration, error) {
	const most = 20
	var took []time.Duration
	for over := runner.Now() + span; len(took) == 0 || len(took) < most && runner.Now() < over; {
		began := runner.Now()
		if _, err := store.Renew(ctx, l); err != nil {
			return nil, err
		}
		took = append(took, runner.Now()-began)
	}
	slices.Sort(took)
	return took, nil
}

// drift returns how many milliseconds the store's clock gains on this host's clock in
// elapsed, at least: the store may have read its clock at any time during a request, and
// this uncertainty is subtracted. A clock of whole seconds adds half a second to it.
func drift(ctx context.Context, store Store) (gained float64, elapsed time.Duration, err error) {
	began := runner.Now()
	var ahead [2]float64
	doubt := time.Duration(0)
	for i := range ahead {
		sent := runner.Now()
		s, err := store.Inspect(ctx, Key)
		if err != nil {
			return 0, 0, err
		}
		answered := runner.Now()
		ahead[i] = float64(s.Now) - float64((sent+answered)/2)/float64(time.Millisecond)
		doubt += (answered - sent) / 2
		if s.Now%1000 == 0 {
			doubt += time.Second / 2
		}
		if i == 0 {
			time.Sleep(clockSpan)
		}
	}
	gained = ahead[1] - ahead[0]
	certain := math.Max(0, math.Abs(gained)-float64(doubt)/float64(time.Millisecond))
	return math.Copysign(certain, gained), runner.Now() - began, nil
}

// hintRights is the hint for optional calls: their errors do not name the missing right.
const hintRights = "grant this user all the rights that the page of its store lists (docs/store-*.md)"

func wakeups(heard bool) lease.Finding {
	if heard {
		return lease.Passed("wake-ups", "standbys are woken, a holder is called")
	}
	return lease.Warned("wake-ups", "the store wakes nobody: a standby learns late that the key is free, and a holder learns of a hand-over by its next renewal",
		hintRights+", and name the server itself, not a pooler; with S3 it is always so")
}

// history checks that the store has recorded the run of the lease.
func history(ctx context.Context, store Store, l lease.Lease) lease.Finding {
	s, err := store.Inspect(ctx, Key)
	if err != nil {
		return lease.Broken("history", err)
	}
	if !slices.ContainsFunc(s.Runs, func(r lease.Run) bool { return r.Token == l.Token }) {
		return lease.Warned("history", "runs are not recorded: leaderrun history shows none", hintRights)
	}
	return lease.Passed("history", "runs are recorded")
}

func listing(ctx context.Context, store lease.Admin) lease.Finding {
	if _, err := store.Keys(ctx); err != nil {
		f := lease.Broken("listing", err)
		f.Verdict = lease.Doubtful // no run lists keys
		return f
	}
	return lease.Passed("listing", "leaderrun status shows all keys")
}

func latency(median, worst time.Duration, t elect.Timing) lease.Finding {
	text := fmt.Sprintf("%s in the median, %s at most; a renewal may take %s", median.Round(10*time.Microsecond), worst.Round(10*time.Microsecond), t.Attempt.Round(time.Millisecond))
	switch {
	case worst > t.Attempt:
		return lease.Failed("latency", text, "use a longer --ttl, or a store that is nearer")
	case worst > t.Attempt/4:
		return lease.Warned("latency", text, "use a longer --ttl, or find out what is slow between here and the store")
	}
	return lease.Passed("latency", text)
}

// clockSpan is how long the two clocks are compared. Stores give the time in milliseconds,
// a tenth of a percent of clockSpan; at least one percent is allowed.
const clockSpan = time.Second

// clock judges the rates of the two clocks by the milliseconds that the store's has gained.
// Their absolute times do not matter.
func clock(gained float64, elapsed time.Duration, t elect.Timing) lease.Finding {
	percent := 100 * math.Max(0, math.Abs(gained)-2) / float64(elapsed.Milliseconds()) // each of the two readings may be off by a millisecond
	allowed := 100 * t.Margin.Seconds() / t.TTL.Seconds()
	if percent > allowed {
		return lease.Failed("clock", fmt.Sprintf("the store's and this host's differ in speed by %.1f%%; %.1f%% is allowed", percent, allowed),
			"look after the time of both hosts: chrony, or what the virtual machine offers")
	}
	return lease.Passed("clock", fmt.Sprintf("the store's and this host's differ in speed by %.1f%% at most; %.1f%% is allowed", percent, allowed))
}
