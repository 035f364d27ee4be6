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

// answer is what came of a call. Who and tok are told by grants and denials, tok
// also by a status.
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
)

// statuses are what an operator is told.
var statuses = map[phase]string{free: noLease, led: denied, cooling: cools, gone: noLease, revoked: stops}

// memory is all that a store knows of a key.
type memory struct {
	phase phase
	who   int // of the newest grant
	tok   int64
	// vague: nobody has been told the token of the newest grant or revocation yet.
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
		m, c, got := state.(memory), input.(call), output.(answer)
		told := &got
		if got.what == unknown {
			told = nil
		}
		want, next := m.do(c, told)
		return told == nil || got == want, next
	},
}

// do returns the right answer and what the store knows after it. It takes from
// told, the answer that came, no more than the token where any one will do.
func (m memory) do(c call, told *answer) (answer, memory) {
	switch c.verb {
	case acquires:
		return m.acquire(c, told)
	case renews:
		return m.renew(c)
	case releases:
		return m.release(c)
	case asks:
		m.asked = m.asked || m.phase == led
		return m.status(map[bool]string{false: no, true: yes}[m.phase == led], told)
	case revokes, frees:
		return m.revoke(c.verb == frees, told)
	case forgets:
		switch m.phase {
		case led:
			m.phase = gone
		case cooling, revoked:
			m.phase = free
		}
	}
	return answer{what: yes}, m
}

// status tells the token beside what.
func (m memory) status(what string, told *answer) (answer, memory) {
	a, m := m.tell(what, told)
	a.who = 0
	return a, m
}

func (m memory) revoke(atOnce bool, told *answer) (answer, memory) {
	a, m := m.status(statuses[m.phase], told)
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

func (m memory) acquire(c call, told *answer) (answer, memory) {
	switch {
	case (m.phase == led || m.phase == gone) && m.who == c.who:
		m.phase = led
		return m.tell(granted, told)
	case m.released&(1<<c.who) != 0:
		return answer{what: released}, m
	case c.ticks && m.served:
		return answer{what: served}, m
	case m.phase == led:
		return m.tell(denied, told)
	case m.phase == cooling:
		return m.tell(cools, told)
	case m.phase == revoked:
		return m.tell(stops, told)
	case m.phase == gone:
		return answer{what: settling}, m
	case c.ticks && c.tries > 0 && m.starts >= c.tries:
		return answer{what: givenUp}, m
	}
	m.phase, m.who, m.vague, m.asked = led, c.who, true, false
	if c.ticks {
		m.starts++
	}
	return m.tell(granted, told)
}

// tell is an answer with holder and token, whichever it is where nobody has been
// told it before.
func (m memory) tell(what string, told *answer) (answer, memory) {
	if m.vague && told != nil && told.tok > m.tok {
		m.tok, m.vague = told.tok, false
	}
	a := answer{what, m.who, m.tok}
	if m.vague {
		a.tok = -1 // whatever was told is wrong
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
	m.served = m.served || c.ticks && c.success // the work is done, whoever leads now
	if !m.owns(c) && (m.phase != revoked || m.who != c.who) {
		if m.phase == free || m.phase == gone {
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
