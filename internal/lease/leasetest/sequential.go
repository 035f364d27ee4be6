package leasetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// The sequential model for the checker: a store that handles one call at a time, each at some
// instant between its start and its end. All ticks are of one round. Times are nanoseconds
// of this process's clock.

// call is one call of a client.
type call struct {
	client  int
	at      span
	unheard bool // the client's call before had no answer
	verb    string
	who     int   // number of the candidacy, nobody where it has never been one
	tok     int64 // of the lease that is shown
	line
	result // of the run
}

// span is the time in which something happens: not before from, not after to.
type span struct{ from, to int64 }

func (s span) later(d int64) span { return span{s.from + d, s.to + d} }

const (
	never = int64(1) << 60
	// grain is the error of a store that counts in milliseconds.
	grain = int64(2 * time.Millisecond)
	// settlingTime is how long a key settles; punctual is how much too early the recorded
	// end of a vanished lease may be.
	settlingTime, punctual = int64(300 * time.Millisecond), int64(20 * time.Millisecond)
	// promptly is the longest TTL of which so little is left at once that a denial calls the holder.
	promptly = 300 * time.Millisecond
)

// terms hold for all leases of a history.
type terms struct {
	ttl, hold int64
	// settles: a holder that has not released is called and gets time to renew.
	settles bool
	// apart: each client measures a lease by its own clock, from when it sees it on.
	apart bool
}

// line is the kind of request of all candidacies.
type line struct {
	holds bool // a minimum hold
	ticks bool
	tries int
}

type result struct{ ran, success bool }

const nobody = -1

func (c call) String() string {
	text := c.verb
	if slices.Contains([]string{acquires, renews, releases}, c.verb) {
		text += fmt.Sprintf(" by %d", c.who)
	}
	switch c.verb {
	case acquires:
		text += fmt.Sprintf(" %+v", c.line)
	case releases:
		text += fmt.Sprintf(" token %d %+v", c.tok, c.result)
	case renews:
		text += fmt.Sprintf(" token %d", c.tok)
	}
	return text
}

// Verbs.
const (
	acquires = "acquire"
	renews   = "renew"
	releases = "release"
	passes   = "pass"
	asks     = "hand over"
	revokes  = "revoke"
	frees    = "revoke now"
	forgets  = "forget" // no call: the key is deleted
)

// answer is the result of a call. Grants and denials give who and tok, a status tok.
type answer struct {
	what string
	who  int
	tok  int64
}

func (a answer) String() string {
	if a.tok == 0 {
		return a.what
	}
	return fmt.Sprintf("%s: %d token %d", a.what, a.who, a.tok)
}

// Answers.
const (
	granted  = "granted"
	denied   = "held"
	cools    = "cooldown"
	stops    = "revoked"
	noLease  = "free" // as a status
	settling = "settling"
	served   = "served"
	givenUp  = "given up"
	released = "released" // as an error of acquire: this candidacy is over
	yes      = "yes"
	asked    = "asked"    // yes, and to hand over
	putBack  = "put back" // yes, and the key had gone
	no       = "lost"
	unknown  = "unknown" // it may have happened, or may happen later
)

// phase is how a key is taken.
type phase int

const (
	free phase = iota
	led
	cooling
	gone   // led, but the key has been deleted
	lapsed // led, but the lease is over
	revoked
	stopping // revoked, but the lease is over, or the key has been deleted
)

// statuses are what an operator is shown.
var statuses = map[phase]string{free: noLease, led: denied, cooling: cools, gone: noLease, lapsed: noLease, revoked: stops, stopping: noLease}

// memory is everything that a store knows about a key.
type memory struct {
	*terms
	now   int64 // the last call was no earlier
	ends  span  // when the lease is over, or what is left of it
	held  span  // when its minimum hold is over
	due   span  // when the key has settled; zero: nobody was called since the holder was heard of
	ready bool  // it has settled by now
	// seen is when each client has seen the newest grant as it is, at the latest.
	seen  [crowd]int64
	until [crowd]int64 // when the key has settled for each client, at the latest; 0 if it has not asked since
	phase phase
	who   int // of the newest grant
	tok   int64
	// vague: no answer has shown the token of the newest grant or revocation yet.
	// It is larger than tok.
	vague    bool
	asked    bool   // to hand over
	released uint64 // candidacies, a bit for each
	served   bool
	starts   int
}

// model returns the model in the checker's form. An unknown answer excludes nothing: since
// such a call never returns, the checker may put it after all others, as if it had not
// happened.
func (t *terms) model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{memory{terms: t, who: nobody}} },
		Step: func(state, input, output any) (next []any) {
			c, a := input.(call), output.(answer)
			for _, m := range state.(memory).views(c) {
				got := &a
				if a.what == unknown {
					got = nil
				}
				if want, after := m.do(c, got); got == nil || a == want {
					next = append(next, after.kept(m, state.(memory)))
				}
			}
			return next
		},
	}
	return m.ToModel()
}

// views are what the call may find, each with the instants at which it does: a lease may
// be over by then, and the key settled.
func (m memory) views(c call) (found []memory) {
	if c.verb == passes {
		return []memory{m}
	}
	m.ready = false
	at := m.instant(c)
	if at.from > at.to {
		return nil
	}
	if seen := &m.seen[c.client]; *seen == 0 || *seen > at.to {
		*seen = at.to
	}
	if m.phase == free || m.phase == stopping {
		return []memory{m}
	}
	m.ends.to = min(m.ends.to, at.to+max(m.ttl, m.hold)) // what made it end then was no later than this call
	lives := m.ends.to
	if m.apart {
		lives = m.seen[c.client] + m.ttl
	}
	if m.phase != lapsed && at.from < lives+grain {
		found = append(found, m.settled(c)...)
	}
	if m.phase == lapsed || at.to >= m.ends.from-grain {
		over := m
		over.phase = map[phase]phase{led: lapsed, gone: lapsed, lapsed: lapsed, revoked: stopping}[m.phase] // or free
		found = append(found, over.settled(c)...)
	}
	return found
}

// instant returns when the call may happen.
func (m memory) instant(c call) span { return span{max(m.now, c.at.from), c.at.to} }

// settled returns m before and after the key has settled.
func (m memory) settled(c call) []memory {
	if c.verb == acquires {
		m.see(c)
	}
	ready := m
	ready.ready = true
	switch at := m.instant(c); {
	case m.phase != gone && m.phase != lapsed:
		return []memory{m}
	case !m.settles:
		return []memory{ready}
	case m.due == span{}:
		return []memory{m}
	case at.to < m.due.from-grain:
		return []memory{m}
	case at.from < m.until[c.client]+grain:
		return []memory{m, ready}
	}
	return []memory{ready}
}

// see records that the client sees the call of the holder, if there is one. It counts from then on,
// for longer if that was slow, and anew if it had no answer in between.
func (m *memory) see(c call) {
	if until := &m.until[c.client]; m.due != (span{}) && (*until == 0 || c.unheard) {
		*until = max(m.due.to, c.at.to+2*(c.at.to-c.at.from)+settlingTime)
	}
}

// kept is what a call leaves of the state that it has found by a view. That a lease was
// over for one call need not be so for the next: a call goes by the time at which it has read the
// key, which may be before that at which others have seen what it changes.
func (m memory) kept(view, found memory) memory {
	if m.phase == view.phase {
		m.phase = found.phase
	}
	return m
}

// do returns the right answer and what the store knows after it. Of got, the answer
// that came, it uses only the token, and only where any token will do.
func (m memory) do(c call, got *answer) (answer, memory) {
	switch c.verb {
	case acquires:
		return m.acquire(c, got)
	case renews:
		return m.renew(c)
	case releases:
		return m.release(c)
	case asks:
		if m.phase == led {
			m.asked, m.until = true, [crowd]int64{} // it is called, and clients count from then on
		}
		return m.status(map[bool]string{false: no, true: yes}[m.phase == led], got)
	case revokes, frees:
		return m.revoke(c, got)
	case forgets:
		if m.phase == led { // a minimum hold, and a holder that has yet to stop, are known without the lease
			m.phase = gone
		}
	}
	return answer{what: yes}, m
}

// extend extends the lease to its TTL from this call, and at least to the minimum hold.
func (m memory) extend(c call) memory {
	m.phase, m.ends, m.due, m.seen = led, m.instant(c).later(m.ttl), span{}, [crowd]int64{}
	m.ends = span{max(m.ends.from, m.held.from), max(m.ends.to, m.held.to)}
	m.seen[c.client] = c.at.to
	return m
}

// call calls the holder, unless it has been called.
func (m memory) call(c call) memory {
	if m.settles && m.due == (span{}) {
		m.until = [crowd]int64{}
		m.due = m.instant(c).later(settlingTime)
		if m.phase == gone { // it settles until the lease that was lost is over
			m.due = span{min(m.due.from, m.ends.from-punctual), max(m.due.to, m.ends.to)}
		}
		m.see(c)
	}
	return m
}

// status returns an answer with the token and without the holder.
func (m memory) status(what string, got *answer) (answer, memory) {
	a, m := m.answer(what, got)
	a.who = 0
	return a, m
}

func (m memory) revoke(c call, got *answer) (answer, memory) {
	atOnce := c.verb == frees
	a, m := m.status(statuses[m.phase], got)
	if !atOnce && m.phase != led && m.phase != cooling {
		return a, m
	}
	if m.phase == led || m.vanished() {
		m.released |= 1 << m.who
	}
	if m.phase == led && !atOnce {
		m.phase = revoked
		m.ends.to += c.at.to - c.at.from // what was left when the row was read may count from when it is written
	} else {
		m.phase = free
	}
	m.vague, m.asked, m.due, m.seen = true, false, span{}, [crowd]int64{}
	m.seen[c.client] = c.at.to
	return a, m
}

// vanished says that nobody has the key, although who had it has not released it.
func (m memory) vanished() bool { return m.phase == gone || m.phase == lapsed }

func (m memory) acquire(c call, got *answer) (answer, memory) {
	switch {
	case (m.phase == led || m.vanished()) && m.who == c.who:
		return m.extend(c).answer(granted, got)
	case m.released&(1<<c.who) != 0:
		return answer{what: released}, m
	case c.ticks && m.served:
		return answer{what: served}, m
	case m.phase == led:
		if m.ttl <= int64(promptly) {
			m = m.call(c)
		}
		return m.answer(denied, got)
	case m.phase == cooling:
		return m.answer(cools, got)
	case m.phase == revoked:
		return m.answer(stops, got)
	case m.vanished() && !m.ready:
		return answer{what: settling}, m.call(c)
	case c.ticks && c.tries > 0 && m.starts >= c.tries:
		return answer{what: givenUp}, m
	}
	m.who, m.vague, m.asked, m.held = c.who, true, false, span{}
	if c.holds {
		m.held = m.instant(c).later(m.hold)
	}
	if c.ticks {
		m.starts++
	}
	return m.extend(c).answer(granted, got)
}

// answer is an answer with holder and token; the token is the one that came where no
// answer has shown it before.
func (m memory) answer(what string, got *answer) (answer, memory) {
	if m.vague && got != nil && got.tok > m.tok {
		m.tok, m.vague = got.tok, false
	}
	a := answer{what, m.who, m.tok}
	if m.vague {
		a.tok = -1 // so any token in got is wrong
	}
	return a, m
}

func (m memory) owns(c call) bool { return m.who == c.who && m.tok == c.tok && !m.vague }

func (m memory) renew(c call) (answer, memory) {
	switch {
	case m.phase == led && m.owns(c):
		return answer{what: map[bool]string{false: yes, true: asked}[m.asked]}, m.extend(c)
	case m.vanished() && m.owns(c):
		return answer{what: putBack}, m.extend(c)
	}
	return answer{what: no}, m
}

func (m memory) release(c call) (answer, memory) {
	m.served = m.served || c.ticks && c.success // the work is done, also under another leader
	if !m.owns(c) && (m.phase != revoked && m.phase != stopping || m.who != c.who) {
		if c.who != nobody {
			m.released |= 1 << c.who
		}
		if m.phase == free || m.phase == stopping || m.vanished() {
			return answer{what: yes}, m
		}
		return answer{what: no}, m
	}
	if m.phase != free && m.phase != cooling {
		m.released |= 1 << c.who
		if c.ticks && !c.ran {
			m.starts--
		}
		if (m.phase == led || m.phase == gone) && c.holds && c.ran {
			m.phase, m.ends = cooling, m.held
		} else {
			m.phase = free
		}
	}
	return answer{what: yes}, m
}
