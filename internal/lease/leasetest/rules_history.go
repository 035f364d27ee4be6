package leasetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// Random histories of one key for [Rules]. Candidates behave like leaderrun, but their
// messages may come late or twice; operators do anything.

// step is one call of a candidate or an operator.
type step struct {
	wait    int64 // milliseconds since the step before
	verb    string
	request lease.Request // of acquire
	lease   lease.Lease   // of renew and release; its holder is that of the request, too
	result  lease.Result
	pause   time.Duration
	flag    bool // of revoke: at once; of forget: with the token
}

func (s step) String() string {
	text := fmt.Sprintf("%+d ms: %s", s.wait, s.verb)
	switch s.verb {
	case "acquire":
		text += fmt.Sprintf(" %+v", s.request)
	case "renew":
		text += fmt.Sprintf(" %+v", s.lease)
	case "release":
		text += fmt.Sprintf(" %+v %+v", s.lease, s.result)
	case "pause":
		text += " " + s.pause.String()
	default:
		text += fmt.Sprintf(" %t", s.flag)
	}
	return text
}

// began is the start of all histories, in ms. It is a whole number of periods.
const began = 1_900_022_400_000

const (
	second = 1000
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)

// candidate is a candidate and its next messages.
type candidate struct {
	request lease.Request
	lease   *lease.Lease
	until   int64 // its lease is valid, by its own clock
}

// writer makes a history. It plays the steps by the rules to know their answers.
type writer struct {
	*rand.Rand
	*ruled
	steps       []step
	candidates  []*candidate
	holders     int
	releases    int
	period, ttl int64
	exact       bool // candidates name their ticks
}

// history returns the history of a seed.
func (c *comparison) history(seed int64) []step {
	const (
		length   = 40
		released = 18 // so many a store remembers at least
	)
	w := &writer{Rand: rand.New(rand.NewPCG(uint64(seed), 0)), ruled: c.begin("rules"), exact: seed%7 == 3}
	w.period = w.pick(2*second, 2*second+1, minute, hour, day)
	w.ttl = w.pick(second, 30*second, 90*second, 8*hour)
	for len(w.steps) < length && w.releases < released {
		s := step{wait: w.pause()}
		switch choice := w.IntN(24); {
		case choice == 0: // which shows the status
			s.verb = "resume"
			w.add(s)
		case len(w.steps) > 0 && choice <= 3: // a message comes twice
			again := w.steps[w.IntN(len(w.steps))]
			again.wait = s.wait
			w.add(again)
		case seed%4 != 0 && choice <= 6 && (w.led() || choice == 4):
			w.operate(s)
		case len(w.candidates) == 0 || len(w.candidates) < 5 && choice <= 14:
			w.ask(w.arrive(), s)
		default:
			w.act(s)
		}
	}
	// At the end the key is forgotten, and starts again.
	w.add(step{verb: "revoke", flag: true})
	w.add(step{verb: "resume"})
	w.add(step{verb: "forget", flag: seed%2 == 0})
	w.add(step{verb: "resume"})
	w.ask(w.arrive(), step{})
	return w.steps
}

func (w *writer) pick(of ...int64) int64 { return of[w.IntN(len(of))] }

func (w *writer) add(s step) (lease.Lease, error) {
	if s.verb == "release" {
		w.releases++
	}
	w.steps = append(w.steps, s)
	_, l, err := w.do(s)
	return l, err
}

// pause returns a pause that often ends where a rule changes its answer.
func (w *writer) pause() int64 {
	st := &w.state
	edges := []int64{st.ServedTick + w.period/2, st.SeriesTick + w.period/2, st.ServedTick - w.period, st.SeriesTick - w.period, w.born + 90*second, w.born + 2*w.ttl}
	if g := st.Grant; g != nil {
		edges = append(edges, g.Expires, g.MinHoldUntil, g.Expires+w.Instant.Apart, w.beat+g.TTL, g.Expires-400)
	}
	if s := st.Settling; s != nil {
		edges = append(edges, s.Due, s.Due+60*second, w.called+s.Due-s.Since)
	}
	if st.Paused != nil {
		edges = append(edges, st.Paused.Until)
	}
	for _, c := range w.candidates {
		edges = append(edges, c.until)
	}
	const longest = 12 * hour // the memory of a key lasts for longer
	edges = slices.DeleteFunc(edges, func(at int64) bool { return at < w.now || at > w.now+longest })
	slices.Sort(edges) // the next ones most often
	switch choice := w.IntN(12); {
	case choice < 3 && len(edges) > 0:
		return max(0, edges[w.IntN(1+w.IntN(len(edges)))]-w.now+w.pick(-1, 0, 1, 2))
	case choice < 5:
		return w.Int64N(1 + w.ttl/3)
	case choice < 6:
		return w.Int64N(1 + min(longest, w.pick(w.period/2, w.period, w.ttl, 300)))
	}
	return w.Int64N(5)
}

// arrive makes a new candidate.
func (w *writer) arrive() *candidate {
	w.holders++
	r := lease.Request{
		Holder: lease.Holder(fmt.Sprintf("host-%c/%04d/%032x", 'a'+w.IntN(3), w.holders, w.holders)),
		TTL:    milliseconds(w.pick(w.ttl, w.ttl, second)), MinHold: milliseconds(w.pick(0, 0, 3*second, 2*w.ttl)),
		Period: milliseconds(w.pick(0, w.period, w.period, w.period, 2*second)), Tries: w.IntN(4), Meta: "{}",
	}
	if w.IntN(8) == 0 { // it has met a holder that the store may have forgotten
		r.Seen.Token, r.Seen.TTL = w.now+w.pick(-second, 0, hour), milliseconds(w.pick(0, 200, min(w.ttl, 8*hour)))
	}
	if w.exact { // its clock may be another than the store's
		now := w.now + w.pick(0, 0, 0, -w.period, w.period)
		r.Exact, r.Tick = true, now-now%w.period
		if w.IntN(4) > 0 { // else by name alone
			r.TickFrom, r.TickUntil = r.Tick, r.Tick+w.period
		}
	}
	c := &candidate{request: r}
	w.candidates = append(w.candidates, c)
	return c
}

// led reports whether somebody leads.
func (w *writer) led() bool {
	return slices.ContainsFunc(w.candidates, func(c *candidate) bool { return c.lease != nil && w.now < c.until })
}

func (w *writer) leave(c *candidate) {
	w.candidates = slices.DeleteFunc(w.candidates, func(other *candidate) bool { return c == other })
}

// operate adds a step of an operator.
func (w *writer) operate(s step) {
	s.verb = []string{"handover", "revoke", "pause", "pause", "resume", "forget"}[w.IntN(6)]
	s.flag = w.IntN(3) == 0
	s.pause = milliseconds(w.pick(1, second, w.ttl, hour, 90*day, 91*day))
	w.add(s)
}

// act lets a candidate, most often the leader, do a next step or die.
func (w *writer) act(s step) {
	c := w.candidates[w.IntN(len(w.candidates))]
	if i := slices.IndexFunc(w.candidates, func(c *candidate) bool { return c.lease != nil }); i >= 0 && w.IntN(4) > 0 {
		c = w.candidates[i]
	}
	s.request = c.request // for the case that it never was the leader
	switch {
	case w.IntN(10) == 0:
		w.leave(c)
	case c.lease == nil, w.IntN(6) == 0: // a leader whose grant was lost asks again
		w.ask(c, s)
	case w.IntN(2) == 0:
		s.verb, s.lease = "renew", *c.lease
		s.lease.Offered = w.IntN(3) == 0
		c.until = w.now + s.wait + s.lease.TTL.Milliseconds()
		if _, err := w.add(s); err != nil {
			c.until = 0
		}
	default:
		s.verb, s.lease = "release", *c.lease
		s.result.Ran = w.IntN(4) > 0
		s.result.Success = s.result.Ran && w.IntN(2) == 0
		if s.result.Ran && !s.result.Success {
			s.result.Exit = w.IntN(3)
		}
		w.leave(c)
		w.add(s)
	}
}

func (w *writer) ask(c *candidate, s step) {
	s.verb, s.request = "acquire", c.request
	s.request.Waits = w.IntN(2) == 0
	s.lease.Holder = c.request.Holder
	l, err := w.add(s)
	var held *lease.HeldError
	switch {
	case err == nil:
		l.Meta = c.request.Meta
		c.lease, c.until = &l, w.now+l.TTL.Milliseconds()
		return
	case errors.As(err, new(*lease.DoneError)), errors.Is(err, lease.ErrReleased):
		w.leave(c)
		return
	case w.IntN(8) == 0: // the answer was lost
		return
	}
	r := &c.request
	if errors.As(err, &held) && w.IntN(4) > 0 { // it has been shown that lease
		r.Seen = lease.Seen{Token: held.Token, TTL: held.TTL, Expires: held.Expires, Left: milliseconds(w.pick(0, 0, 1, w.ttl))}
	}
	if r.TickUntil != 0 {
		r.Tick, r.TickFrom, r.TickUntil = w.now-w.now%w.period, 0, 0
	}
	if r.Tick == 0 {
		r.Tick = w.now
	}
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
