// Package timed checks the calls of candidates for one key, and the store's answers, by a
// model of the lease with time. For each call it knows a time before the call was sent and a
// time after its answer came. It reports a call only if no time between the two explains it.
// Only tests and tools may import it.
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
	None    Answer = ""         // the call was done, will be, or never will
	Granted Answer = "granted"  // of acquire
	Held    Answer = "held"     // another has the lease
	Served  Answer = "served"   // of acquire: the tick needs no run
	Refused Answer = "refused"  // of acquire: for another reason
	Yes     Answer = "yes"      // of renew and release
	PutBack Answer = "put back" // of renew: the lease had gone
	Lost    Answer = "lost"
)

// Call is one call of a candidate. All times are on one clock, that of the candidates.
type Call struct {
	Who    int // the run of leaderrun that made it
	Verb   Verb
	Sent   time.Duration // not after it was sent
	Done   time.Duration // not before its answer came; 0 without an answer
	Answer Answer
	Token  int64 // of a grant; 0 if it is unknown
	Tick   int64 // of a grant, in Unix milliseconds; 0 without ticks
	// Success of a release: the command has done the tick's work.
	Success bool
}

// Run is a command that ran with a token, at least until Last.
type Run struct {
	Token int64
	Last  time.Duration
}

// Terms apply to all calls.
type Terms struct {
	TTL time.Duration
	// From: calls that were sent from then on are judged; earlier calls only explain them.
	From time.Duration
	// Period is the period of ticks, 0 without ticks. Ticks that are Round milliseconds or
	// more apart are different ones.
	Period time.Duration
	Round  int64
	// Forgot is when the store may have lost its data or its clock was set: what it knew
	// before, it may have forgotten. Back is the last step back of its clock, and Lost is when
	// it lost a counter of tokens that was ahead of its clock.
	Forgot []Span
	Back   Step
	Lost   []Span
	// Apart is how much later than its end a store may report that a lease is over.
	Apart time.Duration
	// Calm is the end of the last fault, 0 if it is unknown. Late is how long after that an
	// earlier call may still take effect.
	Calm, Late time.Duration
}

// Step is a step of the store's clock.
type Step struct{ At, By time.Duration }

// Span is a time in which something happened.
type Span struct{ From, To time.Duration }

// Rule is a rule that a history can break.
type Rule string

const (
	Early   Rule = "early"   // a grant during another's lease, counted from before that one's request
	Stale   Rule = "stale"   // a renewal of a lease that was over, or that another had taken over
	Order   Rule = "order"   // a token that is not larger than that of an earlier grant
	Outlive Rule = "outlive" // a command that ran after its lease, counted from before the request
	Twice   Rule = "twice"   // a run for a tick that had been served
	Nobody  Rule = "nobody"  // a tick was reported as served, but no run had served it
	Starve  Rule = "starve"  // a denial because of a lease that was over
)

// Wrong is a broken rule that no order of the calls explains.
type Wrong struct {
	Rule
	Text string
}

// term is one lease: its grant and its holder's other calls.
type term struct {
	who   int
	grant Call
	calls []Call // the grant first
}

// History has the calls by leases.
type History struct {
	Terms
	calls []Call
	terms []*term
}

// New sorts the calls by leases: a candidate has one lease at a time.
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

// Judge returns what is wrong with the calls and with the commands that ran.
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

// margin returns by how much a lease may be shorter because the store's clock is faster.
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
		if h.Round > 0 && g.Tick != 0 && g.Tick < o.Tick+h.Round && h.doneBy(other, g) {
			wrong(Twice, "%s, and %s served the tick", g, o)
		}
	}
}

// lostBetween reports whether the counter may have been lost between two grants.
func (h *History) lostBetween(o, g Call) bool {
	return slices.ContainsFunc(h.Lost, func(s Span) bool { return o.Sent <= s.To && g.Done >= s.From })
}

// lives reports whether the store knew of the lease for the whole time of a call, and by which
// answer.
func (h *History) lives(l *term, during Call) (by Call, lives bool) {
	for _, c := range l.calls {
		if (c.Verb == Release || c.Answer == Lost) && c.Sent <= during.Done {
			return Call{}, false
		}
		if c.holds() && c.Done <= during.Sent && during.Done < c.Sent+h.TTL-h.margin() && h.knew(c, during) {
			by, lives = c, true
		}
	}
	return by, lives
}

// knew reports whether the store still knew of a call c during a later one.
func (h *History) knew(c, during Call) bool {
	return !slices.ContainsFunc(h.Forgot, func(s Span) bool { return s.To > c.Sent && s.From < during.Done })
}

// holds reports whether the answer to the call promised a lease.
func (c Call) holds() bool {
	return c.Answer == Granted || c.Verb == Renew && (c.Answer == Yes || c.Answer == PutBack)
}

// doneBy reports whether the store had acknowledged before a call that the work of the lease's
// tick was done, and still knew it. A tick that was granted before a clock was set back may be
// too far ahead of it to count.
func (h *History) doneBy(l *term, during Call) bool {
	last := l.calls[len(l.calls)-1]
	return last.Verb == Release && last.Success && last.Answer == Yes && last.Done <= during.Sent && h.knew(l.grant, during)
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

// end returns when a lease is over at the latest by these calls. It is unknown if one of them
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

// denied checks a denial after the last fault: somebody must have had the lease.
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
	for _, c := range h.calls { // a call without an answer may have been a grant or a renewal
		if c.Answer == None && c.Verb != Release && c.Sent < d.Done {
			end = max(end, max(c.Sent, h.Calm)+h.Late+h.TTL)
		}
	}
	if over := end + h.margin() + h.Apart; d.Sent > over {
		wrong(Starve, "%s, and every lease was over %s before", d, d.Sent-over)
	}
}

// served checks an answer that a tick needs no run: a run must have succeeded within a period.
// While a store's clock was ahead, a run served a tick that is later by as much.
func (h *History) served(s Call, wrong report) {
	for _, c := range h.calls {
		lasts := 2 * h.Period
		if c.Sent < h.Back.At {
			lasts += h.Back.By
		}
		if c.Verb == Release && c.Success && c.Sent < s.Done && s.Sent < c.Sent+lasts {
			return
		}
	}
	wrong(Nobody, "%s, and nobody had succeeded", s)
}

// Until returns when the lease of a token ended for its holder, by its last grant or renewal;
// 0 if it is unknown. ranOut: it was not released before.
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
