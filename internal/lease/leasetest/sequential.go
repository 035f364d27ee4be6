package leasetest

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
)

// What a store would do if it did one call at a time: the lease without time, for
// histories in which no lease ends by itself and all ticks are of one round.

// call is one call of a client.
type call struct {
	verb string
	who  int   // number of the candidacy, nobody where it has never been one
	tok  int64 // of the lease that is shown
	line
	result // of the run
}

// line is what a candidacy asks for.
type line struct {
	holds bool // a minimum hold that outlasts the history
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
	gone // led, but the key has been deleted
	revoked
	stopping // revoked, but the key has been deleted
)

// statuses are what an operator is shown.
var statuses = map[phase]string{free: noLease, led: denied, cooling: cools, gone: noLease, revoked: stops, stopping: noLease}

// memory is all that a store knows of a key.
type memory struct {
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

// model is a store as the checker wants it. An unknown answer excludes nothing;
// since such a call never returns, the checker may put it after all others, where
// it has not happened.
var model = porcupine.Model{
	Init: func() any { return memory{who: nobody} },
	Step: func(state, input, output any) (bool, any) {
		m, c, a := state.(memory), input.(call), output.(answer)
		got := &a
		if a.what == unknown {
			got = nil
		}
		want, next := m.do(c, got)
		return got == nil || a == want, next
	},
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
		m.asked = m.asked || m.phase == led
		return m.status(map[bool]string{false: no, true: yes}[m.phase == led], got)
	case revokes, frees:
		return m.revoke(c.verb == frees, got)
	case forgets:
		switch m.phase {
		case led:
			m.phase = gone
		case revoked:
			m.phase = stopping
		case cooling:
			m.phase = free
		}
	}
	return answer{what: yes}, m
}

// status is an answer with the token and without the holder.
func (m memory) status(what string, got *answer) (answer, memory) {
	a, m := m.answer(what, got)
	a.who = 0
	return a, m
}

func (m memory) revoke(atOnce bool, got *answer) (answer, memory) {
	a, m := m.status(statuses[m.phase], got)
	if !atOnce && m.phase != led && m.phase != cooling {
		return a, m
	}
	if m.phase == led || m.phase == gone {
		m.released |= 1 << m.who
	}
	if m.phase == led && !atOnce {
		m.phase = revoked
	} else {
		m.phase = free
	}
	m.vague, m.asked = true, false
	return a, m
}

func (m memory) acquire(c call, got *answer) (answer, memory) {
	switch {
	case (m.phase == led || m.phase == gone) && m.who == c.who:
		m.phase = led
		return m.answer(granted, got)
	case m.released&(1<<c.who) != 0:
		return answer{what: released}, m
	case c.ticks && m.served:
		return answer{what: served}, m
	case m.phase == led:
		return m.answer(denied, got)
	case m.phase == cooling:
		return m.answer(cools, got)
	case m.phase == revoked:
		return m.answer(stops, got)
	case m.phase == gone:
		return answer{what: settling}, m
	case c.ticks && c.tries > 0 && m.starts >= c.tries:
		return answer{what: givenUp}, m
	}
	m.phase, m.who, m.vague, m.asked = led, c.who, true, false
	if c.ticks {
		m.starts++
	}
	return m.answer(granted, got)
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
		return answer{what: map[bool]string{false: yes, true: asked}[m.asked]}, m
	case m.phase == gone && m.owns(c):
		m.phase = led
		return answer{what: putBack}, m
	}
	return answer{what: no}, m
}

func (m memory) release(c call) (answer, memory) {
	m.served = m.served || c.ticks && c.success // the work is done, also under another leader
	if !m.owns(c) && (m.phase != revoked && m.phase != stopping || m.who != c.who) {
		if m.phase == free || m.phase == gone || m.phase == stopping {
			return answer{what: yes}, m
		}
		return answer{what: no}, m
	}
	if m.phase != free && m.phase != cooling {
		m.released |= 1 << c.who
		if c.ticks && !c.ran {
			m.starts--
		}
		if m.phase == led && c.holds && c.ran {
			m.phase = cooling
		} else {
			m.phase = free
		}
	}
	return answer{what: yes}, m
}
