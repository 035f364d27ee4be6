package leasetest

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// Random histories of concurrent clients of one key. A linearizability checker looks for an
// order of their calls, each at a time between its start and its end, in which a store that
// handles one call at a time would have given the same answers. In hurried histories leases
// expire.

var (
	// Of the broken stores of TestHistoriesOfBrokenStores each is found within 60; .ci/run plays 100.
	histories = flag.Int("concurrent-histories", 60, "play so many histories of clients that call at the same time")
	onlySeed  = flag.Int64("concurrent-history", -1, "play the concurrent history of this seed only, over and over")
)

const (
	// sideBySide histories are played at a time, to fill each other's waits.
	sideBySide = 4
	// crowd is the maximum number of clients in a history, deeds the number of actions of
	// each. Each action may be a new candidacy.
	crowd, deeds = 4, 4
	// hurriedDeeds is what a client does in a hurried history, every hurriedSeed-th one.
	// They mostly wait: so many of them are played at a time for each other one.
	hurriedDeeds, hurriedSeed, hurriedAtATime = 8, 3, 4
	// briefly is the TTL in hurried histories.
	briefly = 150 * time.Millisecond
)

// Histories plays random concurrent histories against the store of h, those of the
// seeds from 0 on. A seed gives what the clients do next after each answer, not how
// their calls mix. Keys that the store has never seen must not settle: it has been serving
// for long, or has no Settle. A store whose calls are over too soon to overlap fails.
func Histories(t *testing.T, h Harness) {
	t.Helper()
	n := *histories
	began := time.Now()
	r := play(t, h, n, 5, hurriedAtATime, patience)
	for _, wrong := range r.wrong {
		t.Error(wrong)
	}
	if len(r.unjudged) > 0 {
		t.Errorf("not judged within %s: histories %d", patience, r.unjudged)
	}
	t.Logf("%d histories: %d calls, %d beside another one, %d without an answer, in hurried ones %d calls, %d leases that came back, in %s",
		r.histories, r.calls, r.overlapped, r.unknown, r.hurried, r.late, time.Since(began).Round(10*time.Millisecond))
	// Calls that do not overlap prove nothing. On a busy machine fewer than half do.
	if r.overlapped < r.calls/8 {
		t.Errorf("%d of %d calls were beside another one, want an eighth of them", r.overlapped, r.calls)
	}
	if n >= 100 && r.unknown == 0 {
		t.Error("every call had an answer, although some were cut off")
	}
	if n >= 100 && r.late == 0 {
		t.Error("no lease ran out")
	}
}

// report counts what was played.
type report struct {
	mu                                    sync.Mutex
	histories, calls, overlapped, unknown int
	hurried, late                         int // calls of hurried histories, renewals of leases that had run out
	checking                              time.Duration
	wrong                                 []string // histories that no order explains
	unjudged                              []int64  // the seeds of histories that the checker could not judge within checking
}

// play ends early after so many wrong histories. It plays so many hurried ones at a time
// for each other one, 0 is none. The checker has so long for a history.
func play(t *testing.T, h Harness, n, most, hurriedOnes int, checking time.Duration) *report {
	t.Helper()
	r := &report{checking: checking}
	var calm, hurried atomic.Int64
	var end sync.WaitGroup
	for range sideBySide {
		stores := clients(t, h, crowd)
		each := func(next *atomic.Int64, seedOf func(int64) int64) {
			for !r.enough(most) {
				seed := seedOf(next.Add(1) - 1)
				if seed >= int64(n) {
					return
				}
				if *onlySeed >= 0 {
					seed = *onlySeed
				}
				newHistory(t, h, seed, stores).play(r)
			}
		}
		end.Go(func() { each(&calm, func(i int64) int64 { return i + i/(hurriedSeed-1) }) })
		for range hurriedOnes {
			end.Go(func() { each(&hurried, func(i int64) int64 { return hurriedSeed*(i+1) - 1 }) })
		}
	}
	end.Wait()
	return r
}

func (r *report) enough(most int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.wrong) >= most
}

// history is a history in progress.
type history struct {
	t       *testing.T
	h       Harness
	seed    int64
	key     string
	began   time.Time
	hurried bool
	terms
	holders []lease.Holder // by number of the candidacy
	clients []*client
}

func newHistory(t *testing.T, h Harness, seed int64, stores []lease.Store) *history {
	y := &history{t: t, h: h, seed: seed, key: h.request().Key, began: time.Now(), hurried: seed%hurriedSeed == hurriedSeed-1}
	y.terms = terms{ttl: int64(h.long()), settles: h.Settles, apart: h.Apart > 0}
	if y.hurried {
		y.ttl = int64(briefly)
	}
	y.hold = 2 * y.ttl
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	// In some histories there are minimum holds or ticks: little happens in them.
	holds, ticks := r.IntN(8) == 0, r.IntN(4) == 0
	if y.hurried && y.apart { // whose minimum holds are counted in seconds
		holds = false
	}
	for i := range crowd - r.IntN(2) {
		c := &client{history: y, Rand: rand.New(rand.NewPCG(uint64(seed), uint64(i+1))), Store: stores[i], number: i}
		c.line = line{holds: holds && c.IntN(2) == 0, ticks: ticks && c.IntN(4) > 0, tries: c.IntN(3)}
		y.clients = append(y.clients, c)
		for range hurriedDeeds {
			y.holders = append(y.holders, lease.NewHolder("leasetest", os.Getpid()))
		}
	}
	return y
}

// play adds the history to the report.
func (y *history) play(r *report) {
	start := make(chan struct{})
	var end sync.WaitGroup
	for _, c := range y.clients {
		end.Go(func() {
			<-start
			if !y.hurried {
				for range deeds {
					c.act()
				}
				return
			}
			for range hurriedDeeds {
				time.Sleep(c.pause())
				c.act()
			}
		})
	}
	close(start)
	end.Wait()
	var all []porcupine.Operation
	for _, c := range y.clients {
		all = append(all, c.done...)
	}
	slices.SortFunc(all, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	verdict := porcupine.CheckOperationsTimeout(y.model(), all, r.checking)

	r.mu.Lock()
	defer r.mu.Unlock()
	r.histories++
	if y.hurried {
		r.hurried += len(all)
	} else {
		r.calls += len(all)
	}
	for _, op := range all {
		if !y.hurried && slices.ContainsFunc(all, func(other porcupine.Operation) bool {
			return op.ClientId != other.ClientId && op.Call <= other.Return && other.Call <= op.Return
		}) {
			r.overlapped++
		}
		switch what := op.Output.(answer).what; {
		case what == unknown:
			r.unknown++
		case what == putBack && y.hurried:
			r.late++
		}
	}
	switch verdict {
	case porcupine.Illegal:
		r.wrong = append(r.wrong, fmt.Sprintf("history %d: no order of these calls explains their answers:\n%s", y.seed, describe(all)))
	case porcupine.Unknown:
		r.unjudged = append(r.unjudged, y.seed)
	}
}

func describe(all []porcupine.Operation) string {
	var b strings.Builder
	for _, op := range all {
		until := fmt.Sprintf("%7.3f", float64(op.Return)/1e6)
		if op.Return == never {
			until = "      ?"
		}
		fmt.Fprintf(&b, "  client %d, %7.3f to %s ms: %s -> %s\n", op.ClientId, float64(op.Call)/1e6, until, op.Input, op.Output)
	}
	return b.String()
}

// client does one call after the other.
type client struct {
	*history
	*rand.Rand
	lease.Store
	number int
	line   line
	at     int // its current candidacy
	lease  *lease.Lease
	ending *call // the release that was sent, perhaps without effect
	past   []past
	done   []porcupine.Operation
}

// past is a released lease.
type past struct {
	lease lease.Lease
	call  call
}

// pause is how long the client of a hurried history waits before it does something: often
// until a lease has run out, or the key has settled.
func (c *client) pause() time.Duration {
	ttl := time.Duration(c.ttl)
	if n := len(c.done); n > 0 && c.done[n-1].Output.(answer).what == settling && c.IntN(4) > 0 {
		return time.Duration(settlingTime) + time.Millisecond
	}
	return []time.Duration{0, ttl / 3, ttl * 9 / 10, ttl + time.Millisecond}[c.IntN(4)]
}

// act takes the next usual step, or does something unusual.
func (c *client) act() {
	who := c.number*hurriedDeeds + c.at
	switch odd := c.IntN(22); {
	case c.ending != nil:
		c.end()
	case odd >= 20:
		c.meddle()
	case odd == 0:
		c.note(call{verb: passes}, func(ctx context.Context) answer { return c.plain(c.Pass(ctx, c.key)) })
	case odd <= 2 && c.h.Forget != nil:
		c.note(call{verb: forgets}, func(context.Context) answer { c.h.Forget(c.t, c.key); return answer{what: yes} })
	case odd <= 5 && len(c.past) > 0:
		c.comeBack(c.past[c.IntN(len(c.past))])
	case c.lease == nil || odd <= 7:
		c.ask(who)
	case odd <= 9:
		c.forge(who)
	case odd <= 13:
		if c.renew(*c.lease, who).what == no {
			c.ending = &call{who: who, line: c.line}
		}
	default:
		c.ending = &call{who: who, line: c.line, result: result{ran: c.IntN(4) > 0}}
		c.ending.success = c.ending.ran && (!c.line.ticks && c.IntN(2) == 0 || c.IntN(5) == 0) // which is the end of a tick
		c.end()
	}
}

// end releases the lease, again if there was no answer.
func (c *client) end() {
	if c.release(*c.lease, *c.ending).what != unknown {
		c.past = append(c.past, past{*c.lease, *c.ending})
		c.leave()
	}
}

// leave ends the candidacy: the next one has a new holder id.
func (c *client) leave() {
	c.lease, c.ending = nil, nil
	c.at++
}

func (c *client) ask(who int) {
	r := lease.Request{Key: c.key, Holder: c.holders[who], TTL: time.Duration(c.ttl)}
	if c.line.holds {
		r.MinHold = time.Duration(c.hold)
	}
	if c.line.ticks {
		r.Period, r.Tries = period, c.line.tries
	}
	a := c.note(call{verb: acquires, who: who, line: c.line}, func(ctx context.Context) answer {
		l, err := c.Acquire(ctx, r)
		if err == nil {
			c.lease = &l
		}
		return c.acquired(l, err)
	})
	if a.what == released || a.what == served || a.what == givenUp {
		c.leave()
	}
}

func (c *client) acquired(l lease.Lease, err error) answer {
	var held *lease.HeldError
	var settles *lease.SettlingError
	var done *lease.DoneError
	switch {
	case err == nil:
		return answer{granted, slices.Index(c.holders, l.Holder), l.Token}
	case errors.As(err, &held):
		what := string(held.Why)
		who := slices.IndexFunc(c.holders, func(h lease.Holder) bool { return strings.HasSuffix(held.Value, string(h)) })
		return answer{what, who, held.Token}
	case errors.As(err, &settles):
		return answer{what: settling}
	case errors.As(err, &done):
		return answer{what: map[bool]string{false: served, true: givenUp}[done.Why == lease.GivenUp]}
	case errors.Is(err, lease.ErrReleased):
		return answer{what: released}
	}
	return c.plain(err)
}

// meddle does what operators do.
func (c *client) meddle() {
	switch c.IntN(4) {
	case 0:
		c.operate(revokes, func(ctx context.Context, s lease.Admin) (lease.Status, error) { return s.Revoke(ctx, c.key, false) })
	case 1:
		c.operate(frees, func(ctx context.Context, s lease.Admin) (lease.Status, error) { return s.Revoke(ctx, c.key, true) })
	default:
		c.operate(asks, func(ctx context.Context, s lease.Admin) (lease.Status, error) { return s.HandOver(ctx, c.key) })
	}
}

func (c *client) operate(verb string, do func(context.Context, lease.Admin) (lease.Status, error)) {
	c.note(call{verb: verb}, func(ctx context.Context) answer {
		status, err := do(ctx, c.Store.(lease.Admin))
		switch {
		case err != nil:
			return c.plain(err)
		case verb == asks:
			return answer{what: map[bool]string{false: no, true: yes}[status.HandOver], tok: status.Token}
		}
		return answer{what: cmp.Or(string(status.Why), noLease), tok: status.Token}
	})
}

// comeBack sends a message of an ended candidacy.
func (c *client) comeBack(p past) {
	switch c.IntN(3) {
	case 0:
		c.renew(p.lease, p.call.who)
	case 1:
		c.release(p.lease, p.call) // its reply got lost
	default:
		held, at := c.lease, c.at
		c.ask(p.call.who)
		c.lease, c.at = held, at
	}
}

// forge uses the right token with a wrong holder, or the other way round.
func (c *client) forge(who int) {
	l := *c.lease
	if c.IntN(2) == 0 {
		l.Holder, who = lease.NewHolder("leasetest", os.Getpid()), nobody
	} else {
		l.Token--
	}
	if c.IntN(2) == 0 {
		c.renew(l, who)
	} else {
		c.release(l, call{who: who, line: c.line})
	}
}

func (c *client) renew(l lease.Lease, who int) answer {
	return c.note(call{verb: renews, who: who, tok: l.Token}, func(ctx context.Context) answer {
		renewed, err := c.Renew(ctx, l)
		if err == nil && renewed.Reasserted {
			return answer{what: putBack}
		}
		if err == nil && renewed.HandOver {
			return answer{what: asked}
		}
		return c.plain(err)
	})
}

func (c *client) release(l lease.Lease, this call) answer {
	this.verb, this.tok = releases, l.Token
	exit := map[bool]int{false: 1, true: 0}[this.success]
	return c.note(this, func(ctx context.Context) answer {
		return c.plain(c.Release(ctx, l, lease.Result{Ran: this.ran, Success: this.success, Exit: exit}))
	})
}

// plain is an answer that only says whether it was done.
func (c *client) plain(err error) answer {
	var failed *lease.StoreError
	switch {
	case err == nil:
		return answer{what: yes}
	case errors.Is(err, lease.ErrLost):
		return answer{what: no}
	case errors.As(err, &failed) && !failed.Permanent:
		return answer{what: unknown}
	}
	return answer{what: err.Error()} // which no order explains
}

// note makes a call and records it. Some calls are cancelled.
func (c *client) note(this call, do func(context.Context) answer) answer {
	limit := patience
	if c.IntN(50) == 0 {
		limit = time.Duration(c.IntN(300)) * time.Microsecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	from := time.Since(c.began)
	a := do(ctx)
	when := span{int64(from), int64(time.Since(c.began))}
	if a.what == unknown {
		when.to = never
	}
	if c.hurried { // in other histories time is of no matter, and their states are fewer without it
		n := len(c.done)
		this.client, this.at, this.unheard = c.number, when, n > 0 && c.done[n-1].Output.(answer).what == unknown
	}
	op := porcupine.Operation{ClientId: c.number, Input: this, Call: when.from, Output: a, Return: when.to}
	c.done = append(c.done, op)
	return a
}
