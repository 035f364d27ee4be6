// Package timed judges what candidates for one key asked a store, and were answered, by
// a model of the lease with time. It knows each call's time before it left and the time
// after its answer came, and finds wrong only what no instant between the two explains.
package timed

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Verb is what a call asks for.
type Verb string

const (
	Acquire Verb = "acquire"
	Renew   Verb = "renew"
	Release Verb = "release"
)

// Answer is what the store said.
type Answer string

const (
	None    Answer = ""         // it did the call, does it later, or never
	Granted Answer = "granted"  // of acquire
	Held    Answer = "held"     // another has the lease
	Served  Answer = "served"   // the tick needs no run
	Refused Answer = "refused"  // for another reason
	Yes     Answer = "yes"      // of renew and release
	PutBack Answer = "put back" // of renew: the lease had gone
	Lost    Answer = "lost"
)

// Call is one call of a candidate. Instants are on one clock, that of the candidates.
type Call struct {
	Who    int // the run of leaderrun that made it
	Verb   Verb
	Sent   time.Duration // it left no earlier
	Done   time.Duration // its answer came no later; 0 without one
	Answer Answer
	Token  int64 // of a grant, 0 if it is not known
	Tick   int64 // of a grant, in milliseconds of Unix time; 0 without one
	// Success of a release: the command has done the tick's work.
	Success bool
}

// Run is a command that ran under a token, until Last at least.
type Run struct {
	Token int64
	Last  time.Duration
}

// Terms hold for all calls.
type Terms struct {
	TTL time.Duration
	// From is when the calls left that are judged; those before only explain them.
	From time.Duration
	// Period is that of ticks that Round milliseconds part; 0 without ticks.
	Period time.Duration
	Round  int64
	// Known is when the store last lost its record of ticks, and Lost when it lost a counter
	// of tokens that was ahead of its clock.
	Known time.Duration
	Lost  []Span
	// Apart is by how much a store's word on the end of a lease may be late.
	Apart time.Duration
	// Calm is when the last fault was over, 0 if it is not known, and Late how long a
	// call that left before it may still take effect.
	Calm, Late time.Duration
}

// Span is a time in which something happened.
type Span struct{ From, To time.Duration }

// Rule is what a history breaks.
type Rule string

const (
	Early   Rule = "early"   // a grant while the lease of another lived, counted from before its request
	Stale   Rule = "stale"   // a renewal of a lease that another had taken over, or that was over
	Order   Rule = "order"   // a token that is not above that of an earlier grant
	Outlive Rule = "outlive" // a command that ran after its lease, counted from before its request
	Twice   Rule = "twice"   // a run of a tick that had been served
	Nobody  Rule = "nobody"  // a tick that was called served, and nobody had served it
	Starve  Rule = "starve"  // a candidate that was denied because of a lease that was over
)

// Wrong is one thing that no order of the calls explains.
type Wrong struct {
	Rule
	Text string
}

// term is one lease: the grant and what its holder asked of it.
type term struct {
	who   int
	grant Call
	calls []Call // the grant first
}

// History is what the calls say of the leases.
type History struct {
	Terms
	calls []Call
	terms []*term
}

// New sorts the calls by the leases that they are about: a candidate has one at a time.
func New(t Terms, calls []Call) *History {
	h := &History{Terms: t, calls: slices.Clone(calls)}
	slices.SortStableFunc(h.calls, func(a, b Call) int { return cmp.Compare(a.Sent, b.Sent) })
	held := map[int]*term{}
	for _, c := range h.calls {
		if c.Answer == Granted {
			held[c.Who] = &term{who: c.Who, grant: c, calls: []Call{c}}
			h.terms = append(h.terms, held[c.Who])
		} else if l := held[c.Who]; l != nil && c.Verb != Acquire {
			l.calls = append(l.calls, c)
		}
	}
	return h
}

// Judge finds what is wrong with the calls, and with the commands that ran.
func (h *History) Judge(runs []Run) []Wrong {
	var found []Wrong
	wrong := func(r Rule, form string, args ...any) {
		found = append(found, Wrong{r, fmt.Sprintf(form, args...)})
	}
	for _, l := range h.terms {
		if l.grant.Sent >= h.From {
			h.granted(l, wrong)
		}
		for i, c := range l.calls {
			if c.Verb == Renew && c.holds() && c.Sent >= h.From {
				h.renewed(l, c, l.calls[:i], wrong)
			}
		}
	}
	for _, c := range h.calls {
		switch {
		case c.Sent < h.From:
		case c.Answer == Held:
			h.denied(c, wrong)
		case c.Answer == Served:
			h.served(c, wrong)
		}
	}
	for _, r := range runs {
		if until, _ := h.Until(r.Token); until != 0 && r.Last >= until {
			wrong(Outlive, "the run of token %d lived %s longer than its lease", r.Token, r.Last-until)
		}
	}
	return found
}

type report func(r Rule, form string, args ...any)

// margin is by how much the store's clock may be faster than the candidates'.
func (h *History) margin() time.Duration { return h.TTL/100 + 5*time.Millisecond }

func (h *History) granted(l *term, wrong report) {
	g := l.grant
	for _, other := range h.terms {
		o := other.grant
		if other == l || o.Done > g.Sent {
			continue
		}
		if g.Token != 0 && o.Token >= g.Token && !h.lostBetween(o, g) {
			wrong(Order, "%s after %s", g, o)
		}
		if c, lives := h.lives(other, g); lives && other.who != l.who {
			wrong(Early, "%s while the lease of %s lived by %s", g, o, c)
		}
		if h.Round > 0 && g.Tick != 0 && g.Tick < o.Tick+h.Round && other.served(h.Known, g.Sent) {
			wrong(Twice, "%s, and %s served the tick", g, o)
		}
	}
}

// lostBetween says that the counter may have been lost after the one grant and before the other.
func (h *History) lostBetween(o, g Call) bool {
	return slices.ContainsFunc(h.Lost, func(s Span) bool { return o.Sent <= s.To && g.Done >= s.From })
}

// lives finds the answer by which a lease lived all the time that a call took.
func (h *History) lives(l *term, during Call) (by Call, lives bool) {
	for _, c := range l.calls {
		if (c.Verb == Release || c.Answer == Lost) && c.Sent <= during.Done {
			return Call{}, false
		}
		if c.holds() && c.Done <= during.Sent && during.Done < c.Sent+h.TTL-h.margin() {
			by, lives = c, true
		}
	}
	return by, lives
}

// holds says that the store promised a lease from this call on.
func (c Call) holds() bool {
	return c.Answer == Granted || c.Verb == Renew && (c.Answer == Yes || c.Answer == PutBack)
}

// served reports whether the store acknowledged, between two instants, that the work of the
// lease's tick is done.
func (l *term) served(from, to time.Duration) bool {
	last := l.calls[len(l.calls)-1]
	return last.Verb == Release && last.Success && last.Answer == Yes && last.Sent > from && last.Done <= to
}

func (h *History) renewed(l *term, r Call, before []Call, wrong report) {
	for _, other := range h.terms {
		if o := other.grant; other.who != l.who && o.Sent >= l.grant.Done && o.Done <= r.Sent {
			wrong(Stale, "%s of %s after %s", r, l.grant, o)
			return
		}
	}
	end, known := h.end(before)
	if over := end + h.margin() + h.Apart; known && r.Answer == Yes && r.Sent > over {
		wrong(Stale, "%s of %s, which was over %s before", r, l.grant, r.Sent-over)
	}
}

// end is when a lease is over at the latest by these calls; not known if one of them
// was not answered.
func (h *History) end(calls []Call) (at time.Duration, known bool) {
	for _, c := range calls {
		if c.Answer == None {
			return 0, false
		}
		if c.holds() {
			at = max(at, c.Done+h.TTL)
		}
	}
	return at, true
}

// denied judges a denial after the last fault: somebody must have had the lease.
func (h *History) denied(d Call, wrong report) {
	if h.Calm == 0 || d.Sent <= h.Calm {
		return
	}
	var end time.Duration
	for _, l := range h.terms {
		var own time.Duration
		for _, c := range l.calls {
			switch {
			case c.holds() && c.Sent < d.Done:
				own = max(own, c.Done+h.TTL)
			case c.Verb == Release && c.Answer != None && c.Done <= d.Sent:
				own = c.Done
			}
		}
		end = max(end, own)
	}
	for _, c := range h.calls { // one without an answer may have been granted or renewed
		if c.Answer == None && c.Verb != Release && c.Sent < d.Done {
			end = max(end, max(c.Sent, h.Calm)+h.Late+h.TTL)
		}
	}
	if over := end + h.margin() + h.Apart; d.Sent > over {
		wrong(Starve, "%s, and every lease was over %s before", d, d.Sent-over)
	}
}

// served judges the answer that a tick needs no run: a run has succeeded within a period.
func (h *History) served(s Call, wrong report) {
	for _, c := range h.calls {
		if c.Verb == Release && c.Success && c.Sent < s.Done && c.Sent > s.Sent-2*h.Period {
			return
		}
	}
	wrong(Nobody, "%s, and nobody had succeeded", s)
}

// Until is when the lease of a token ended, by the last call that prolonged it and as
// its holder had to count; 0 if nothing is known of it. RanOut: it was not released before.
func (h *History) Until(token int64) (at time.Duration, ranOut bool) {
	ranOut = true
	for _, l := range h.terms {
		if l.grant.Token != token {
			continue
		}
		for _, c := range l.calls {
			switch {
			case c.holds():
				at = max(at, c.Sent+h.TTL)
			case c.Verb == Release && c.Answer != None && c.Done < at:
				ranOut = false
			}
		}
	}
	return at, ranOut
}

func (c Call) String() string {
	text := fmt.Sprintf("run %d: %s", c.Who, c.Verb)
	if c.Answer != None {
		text += " " + string(c.Answer)
	}
	if c.Token != 0 {
		text += fmt.Sprintf(" token %d", c.Token)
	}
	return fmt.Sprintf("%s (%.3f to %.3f s)", text, c.Sent.Seconds(), c.Done.Seconds())
}
