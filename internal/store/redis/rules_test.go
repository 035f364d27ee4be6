package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
)

// The scripts and package leasestate implement one contract. Their answers to
// candidates and operators must be the same, call by call, as long as nobody else
// writes to the store. A history in which they differ is made small.
func TestScriptsFollowTheRules(t *testing.T) {
	t.Parallel()
	s := miniStage(t)
	store := open(t, s.addr)
	eachHistory(t, toPlay(), s.undamaged, func(t *testing.T, steps []step) string {
		s.do(t, "FLUSHALL")
		r := &ruled{state: leasestate.New("k"), now: began, server: s.self}
		granted := map[string]call{}
		for i, step := range steps {
			if g, ok := granted[step.holder]; ok { // which it was may depend on what was left out
				step.token, step.tick, step.granted, step.holdUntil = g.token, g.tick, g.granted, g.holdUntil
			} else if step.verb == "renew" || step.verb == "release" {
				step.verb = "acquire"
			}
			want := r.do(t, step)
			if g := r.state.Grant; g != nil && string(g.Holder) == step.holder {
				granted[step.holder] = call{token: r.state.Token, tick: g.Tick, granted: g.Acquired, holdUntil: g.MinHold}
			}
			s.setTime(r.now)
			if got := result(t, store, step); got != want {
				return fmt.Sprintf("step %d\nscripts: %s\nrules:   %s", i, got, want)
			}
		}
		return ""
	})
}

// undamaged is what is left of a history if only operators change the store, no
// silence makes it forget the key, and it remembers all holders that released it.
func (s *stage) undamaged(t *testing.T, seed int64) []step {
	const remembered = 18
	var left []step
	releases := 0
	for _, step := range s.history(t, seed) {
		if step.verb == "release" {
			releases++
		}
		if releases > remembered {
			break
		}
		step.wait, step.seenTTL = min(step.wait, 12*hour), min(step.seenTTL, 8*hour)
		if slices.Contains([]string{"acquire", "renew", "release", "handover", "revoke", "forget"}, step.verb) {
			left = append(left, step)
		}
	}
	return left
}

// ruled is a key that package leasestate keeps.
type ruled struct {
	state     leasestate.State
	now, born int64
	server    string
}

func (r *ruled) do(t *testing.T, s step) string {
	r.now += s.wait
	now := leasestate.Instant{Boot: "redis", Up: r.now, Wall: r.now, Settle: settling, Server: r.server}
	if r.born > 0 {
		now.Serving = r.now - r.born
	}
	answer := result(t, ruledStore{&r.state, now}, s)
	if r.state.Token > 0 && r.born == 0 {
		r.born = r.now
	}
	return answer
}

// ruledStore is that key as a store, at one instant.
type ruledStore struct {
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

func (s ruledStore) Forget(_ context.Context, _ string, token bool) (lease.Status, error) {
	before := s.Status(s.now)
	s.State.Forget(token, s.now)
	return before, nil
}

// judged is what a step needs of a store.
type judged interface {
	Acquire(context.Context, lease.Request) (lease.Lease, error)
	Renew(context.Context, lease.Lease) (lease.Lease, error)
	Release(context.Context, lease.Lease, lease.Result) error
	HandOver(ctx context.Context, key string) (lease.Status, error)
	Revoke(ctx context.Context, key string, atOnce bool) (lease.Status, error)
	Forget(ctx context.Context, key string, token bool) (lease.Status, error)
}

// result takes a step and describes its answer.
func result(t *testing.T, on judged, s step) string {
	t.Helper()
	ctx, ms := bounded(t), time.Millisecond
	l := lease.Lease{
		Key: "k", Holder: lease.Holder(s.holder), Token: s.token, TTL: time.Duration(s.ttl) * ms, AcquiredAt: s.granted, MinHoldUntil: s.holdUntil,
		Tick: s.tick, Period: time.Duration(s.period) * ms, Exact: s.exact, Meta: "{}", Offered: s.offered,
	}
	var err error
	var status lease.Status
	text := "yes"
	switch s.verb {
	case "acquire":
		l, err = on.Acquire(ctx, lease.Request{
			Key: "k", Holder: l.Holder, TTL: l.TTL, MinHold: time.Duration(s.minHold) * ms, Tick: s.tick, Period: l.Period, Tries: int(s.tries), Meta: "{}",
			Exact: s.exact, TickFrom: s.from, TickUntil: s.to, Waits: s.waits,
			Seen: lease.Seen{Token: s.seen, TTL: time.Duration(s.seenTTL) * ms, Expires: s.seenEnds, Left: time.Duration(s.seenLeft) * ms},
		})
		text = fmt.Sprintf("granted: token %d, tick %d, acquired %d, hold until %d", l.Token, l.Tick, l.AcquiredAt, l.MinHoldUntil)
	case "renew":
		l, err = on.Renew(ctx, l)
		text = fmt.Sprintf("renewed: hand over %t, was gone %t", l.HandOver, l.Reasserted)
	case "release":
		err = on.Release(ctx, l, lease.Result{Ran: s.ran, Success: s.success, Exit: int(s.exit)})
	case "handover":
		status, err = on.HandOver(ctx, "k")
		text = statusText(status)
	case "revoke":
		status, err = on.Revoke(ctx, "k", s.atOnce)
		text = statusText(status)
	case "forget":
		status, err = on.Forget(ctx, "k", s.atOnce)
		text = statusText(status)
	}
	var held *lease.HeldError
	switch {
	case errors.As(err, &held):
		text = fmt.Sprintf("%s: token %d, %s left of %s", held.Why, held.Token, held.Remaining, held.TTL)
		if held.Why == lease.HeldLeader { // who waits for another end need not know more
			text += fmt.Sprintf(", by %s for %s, expires %d", held.Value, held.Since, held.Expires)
		}
	case errors.Is(err, lease.ErrLost) && !errors.Is(err, lease.ErrRevoked): // the scripts say why
		text = lease.ErrLost.Error()
	case err != nil:
		text = err.Error()
	}
	return text
}

func statusText(s lease.Status) string {
	text := fmt.Sprintf("%s: token %d, %s left, holder %s, hand over %t, served %d, starts %d", s.Why, s.Token, s.Remaining, s.Holder, s.HandOver, s.Served, s.Starts)
	text += fmt.Sprintf(", candidates %v", s.Candidates)
	for _, r := range s.Runs {
		text += fmt.Sprintf("; run %d of %s, tick %d, %d, vanished %t", r.Token, r.Holder, r.Tick, r.Exit, r.Vanished)
	}
	return text
}
