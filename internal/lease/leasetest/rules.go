package leasetest

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
)

// The answers of a store are compared with those of package leasestate, call by call, in
// random histories of one key. A seed gives a history. One that fails is reduced to the
// steps that are needed and shown.

var (
	ruleHistories = flag.Int64("rule-histories", 0, "compare so many random histories with the rules; 0 is as many as each store can afford")
	ruleHistory   = flag.Int64("rule-history", -1, "compare the one of this seed")
)

// Ruled gives [Rules] access to a store whose clock it sets.
type Ruled struct {
	// Store is a [lease.Admin], too, and the only client of its keys.
	Store lease.Store
	// SetTime sets its clock, in ms since 1970. It never goes back within a history.
	SetTime func(ms int64)
	// Instant is what the rules get with each call, except the times and what its client
	// has seen.
	Instant leasestate.Instant
	// Unit is the resolution of the store's clock, in ms. Its client sees milliseconds.
	Unit int64
	// Reset, if not nil, deletes all data before each history. The store then counts from
	// its first grant how long it has lost no data.
	Reset func(t *testing.T)
	// Histories is how many are compared.
	Histories int64
	// Terse says that the store says less than the rules about why a lease is lost, and
	// about holders whose end nobody needs to wait for.
	Terse bool
}

// At is a change of a state at *ms instead of its store's time.
func At(ms *int64, change func(*leasestate.State, leasestate.Instant) (lease.Lease, error)) func(*leasestate.State, leasestate.Instant) (lease.Lease, error) {
	return func(st *leasestate.State, now leasestate.Instant) (lease.Lease, error) {
		now.Up, now.Wall = *ms, *ms
		return change(st, now)
	}
}

// Rules compares the answers of a store with those of package leasestate.
func Rules(t *testing.T, r Ruled) {
	t.Helper()
	first, n := int64(0), r.Histories
	if *ruleHistories > 0 {
		n = *ruleHistories
	}
	if testing.Short() {
		n /= 8
	}
	if *ruleHistory >= 0 {
		first, n = *ruleHistory, *ruleHistory+1
	}
	c := &comparison{Ruled: r, seen: map[string]int{}}
	for seed := first; seed < n; seed++ {
		steps := c.history(seed)
		differs := c.difference(t, steps)
		if differs == "" {
			continue
		}
		steps = shrunk(steps, func(steps []step) bool { return c.difference(t, steps) != "" })
		var text strings.Builder
		for i, s := range steps {
			fmt.Fprintf(&text, "%4d %s\n", i, s)
		}
		t.Fatalf("history %d: %s\nwhat is left of it:\n%s%s", seed, differs, &text, c.difference(t, steps))
	}
	const enough = 30 // to go everywhere
	if n-first < enough {
		return
	}
	for _, kind := range []string{
		"acquire granted", "acquire held", "acquire cooldown", "acquire revoked", "acquire done", "acquire released", "acquire paused", "acquire clock",
		"renew renewed", "renew lost", "release yes", "release lost", "handover held", "revoke held", "pause", "resume", "forget",
	} {
		if c.seen[kind] == 0 {
			t.Errorf("no call was answered with %q", kind)
		}
	}
}

// shrunk reduces a failing history to the steps that are needed.
func shrunk(steps []step, fails func([]step) bool) []step {
	for size := len(steps) / 2; size > 0; {
		smaller := false
		for i := 0; i+size <= len(steps); {
			less := slices.Concat(steps[:i], steps[i+size:])
			if i+size < len(steps) { // the others come when they did
				less[i].wait += waited(steps[i : i+size])
			}
			if fails(less) {
				steps, smaller = less, true
			} else {
				i += size
			}
		}
		if !smaller {
			size /= 2
		}
	}
	return steps
}

func waited(steps []step) (all int64) {
	for _, s := range steps {
		all += s.wait
	}
	return all
}

// comparison compares a store with the rules.
type comparison struct {
	Ruled
	keys int
	seen map[string]int // answers, by their kind
}

// ruled is one key that package leasestate keeps.
type ruled struct {
	*Ruled
	key      string
	state    leasestate.State
	now      int64
	born     int64 // the first grant
	beat     int64 // the last grant or renewal, as the store's client has seen it
	called   int64 // when the holder was called last
	answered bool  // at all
}

func (c *comparison) begin(key string) *ruled {
	return &ruled{Ruled: &c.Ruled, key: key, state: leasestate.New(key), now: began}
}

// difference plays a history on a new key and returns the first difference in the answers.
func (c *comparison) difference(t *testing.T, steps []step) string {
	t.Helper()
	if c.Reset != nil {
		c.Reset(t)
	}
	c.keys++
	r := c.begin(fmt.Sprintf("rules:%d", c.keys))
	granted := map[lease.Holder]lease.Lease{}
	for i, s := range steps {
		if l, ok := granted[s.lease.Holder]; ok { // which it was may depend on what was left out
			s.lease.Token, s.lease.Tick, s.lease.AcquiredAt, s.lease.MinHoldUntil = l.Token, l.Tick, l.AcquiredAt, l.MinHoldUntil
		} else if s.verb == "renew" || s.verb == "release" {
			s.verb = "acquire"
		}
		want, l, _ := r.do(s)
		if s.verb == "acquire" && l.Token > 0 {
			granted[l.Holder] = l
		}
		c.SetTime(r.now)
		got, _, _ := s.on(c.Store.(operated), r.key, c.Terse)
		if got != want {
			return fmt.Sprintf("step %d\nstore: %s\nrules: %s", i, got, want)
		}
		kind, _, _ := strings.Cut(got, ":")
		c.seen[s.verb+" "+kind]++
		c.seen[s.verb]++
	}
	return ""
}

// do takes a step at its time.
func (r *ruled) do(s step) (answer string, l lease.Lease, err error) {
	r.now += s.wait
	now, unit := r.Instant, max(r.Unit, 1)
	now.Up, now.Wall = r.now/unit*unit, r.now/unit*unit
	if !r.answered {
		r.answered, r.beat, r.called = true, r.now, r.now
	}
	if now.Apart > 0 {
		now.Unrenewed = r.now - r.beat
		if r.state.Settling != nil {
			now.Settled = r.now - r.called
		}
	}
	if r.Reset != nil && r.born > 0 {
		now.Serving = r.now - r.born
	}
	before := r.state
	if before.Grant != nil {
		grant := *before.Grant
		before.Grant = &grant
	}
	answer, l, err = s.on(ruledStore{State: &r.state, now: now}, r.key, r.Terse)
	if l.Token > 0 || r.state.Token != before.Token {
		r.beat = r.now
	}
	calls := (s.verb == "handover" || s.verb == "revoke") && !reflect.DeepEqual(before, r.state)
	if calls || r.state.Settling != nil && r.state.Settling != before.Settling {
		r.called = r.now
	}
	if r.state.Token > 0 && r.born == 0 {
		r.born = r.now
	}
	return answer, l, err
}

// ruledStore makes a state a store, at one instant.
type ruledStore struct {
	operated // nil: the rules have no other verbs
	*leasestate.State
	now leasestate.Instant
}

func (s ruledStore) Acquire(_ context.Context, r lease.Request) (lease.Lease, error) {
	l, err := s.State.Acquire(r, s.now)
	if s.Unnoted(r, err, s.now) {
		s.Note(r, s.now)
	}
	return l, err
}

func (s ruledStore) Renew(_ context.Context, l lease.Lease) (lease.Lease, error) {
	return s.State.Renew(l, s.now)
}

func (s ruledStore) Release(_ context.Context, l lease.Lease, r lease.Result) error {
	return s.State.Release(l, r, s.now)
}

func (s ruledStore) HandOver(context.Context, string) (lease.Status, error) {
	s.State.HandOver(s.now)
	return s.Status(s.now), nil
}

func (s ruledStore) Revoke(_ context.Context, _ string, atOnce bool) (lease.Status, error) {
	before := s.Status(s.now)
	s.State.Revoke(atOnce, s.now)
	return before, nil
}

func (s ruledStore) Pause(_ context.Context, _ string, d time.Duration, by, reason string) (lease.Status, error) {
	s.State.Pause(d, by, reason, s.now)
	return s.Status(s.now), nil
}

func (s ruledStore) Resume(context.Context, string) (lease.Status, error) {
	before := s.Status(s.now)
	s.State.Resume()
	return before, nil
}

func (s ruledStore) Forget(_ context.Context, _ string, token bool) (lease.Status, error) {
	before := s.Status(s.now)
	s.State.Forget(token, s.now)
	return before, nil
}

// on takes a step and describes its answer. The lease is that of a grant or a renewal.
func (s step) on(store operated, key string, terse bool) (text string, l lease.Lease, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s.lease.Key, s.request.Key = key, key
	var status lease.Status
	switch s.verb {
	case "acquire":
		l, err = store.Acquire(ctx, s.request)
		text = fmt.Sprintf("granted: token %d, tick %d, acquired %d, hold until %d", l.Token, l.Tick, l.AcquiredAt, l.MinHoldUntil)
	case "renew":
		l, err = store.Renew(ctx, s.lease)
		text = fmt.Sprintf("renewed: hand over %t, was gone %t", l.HandOver, l.Reasserted)
	case "release":
		text, err = "yes", store.Release(ctx, s.lease, s.result)
	case "handover":
		status, err = store.HandOver(ctx, key)
	case "revoke":
		status, err = store.Revoke(ctx, key, s.flag)
	case "pause":
		status, err = store.Pause(ctx, key, s.pause, "ann@db1", "backup")
	case "resume":
		status, err = store.Resume(ctx, key)
	case "forget":
		status, err = store.Forget(ctx, key, s.flag)
	}
	switch {
	case err != nil:
		return describeError(err, terse), lease.Lease{}, err
	case text == "":
		text = describeStatus(status)
	}
	return text, l, nil
}

func describeError(err error, terse bool) string {
	var held *lease.HeldError
	var settles *lease.SettlingError
	var paused *lease.PausedError
	var done *lease.DoneError
	var clock *lease.ClockError
	switch {
	case errors.As(err, &held):
		text := fmt.Sprintf("%s: token %d, %s left of %s", held.Why, held.Token, held.Remaining, held.TTL)
		if !terse || held.Why == lease.HeldLeader {
			text += fmt.Sprintf(", by %s for %s, expires %d, tick %d", held.Value, held.Since, held.Expires, held.Tick)
		}
		return text
	case errors.As(err, &settles):
		return fmt.Sprintf("settling: %s left (%s), tick %d", settles.Remaining, settles.Why, settles.Tick)
	case errors.As(err, &paused):
		return fmt.Sprintf("paused: %+v, %s left, tick %d", paused.Pause, paused.Remaining, paused.Tick)
	case errors.As(err, &done):
		return fmt.Sprintf("done: %s ago, given up %t", done.Ago, done.GivenUp)
	case errors.As(err, &clock):
		return fmt.Sprintf("clock: %d", clock.Tick)
	case errors.Is(err, lease.ErrReleased):
		return "released"
	case errors.Is(err, lease.ErrRevoked) && !terse:
		return "lost: revoked"
	case errors.Is(err, lease.ErrLost):
		return "lost"
	}
	return err.Error()
}

// describeStatus leaves out the recorded hosts: a store may give up recording one after
// 300 ms of real time.
func describeStatus(s lease.Status) string {
	text := fmt.Sprintf("%s: token %d, %s left of %s, holder %q, since %d, hold until %d, tick %d, served %d, starts %d of %d, period %s, hand over %t, pause %v, meta %q",
		cmp.Or(string(s.Why), "free"), s.Token, s.Remaining, s.TTL, s.Holder, s.Since, s.MinHoldUntil, s.Tick, s.ServedTick, s.Starts, s.Tries, s.Period, s.HandOver, s.Pause, s.Meta)
	for _, r := range s.Runs {
		if r.Vanished { // a store may say when the lease ran out
			r.End = 0
		}
		text += fmt.Sprintf("; run %d of %s, tick %d, started %d, ended %d with %d, vanished %t", r.Token, r.Holder, r.Tick, r.Start, r.End, r.Exit, r.Vanished)
	}
	return text
}
