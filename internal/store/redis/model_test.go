package redis

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// The rules of the contract for one key, in Go, as plain as they can be said:
// what the scripts must answer at any instant after any history. They share no
// text with the scripts. history_test.go compares the two.

// none stands for a number that is missing; garbage counts as missing.
const none = -1

// The rules' own numbers, in milliseconds.
const (
	never       = math.MaxInt64
	wakeLife    = 5_000
	settling    = 300        // a key that nobody knows
	soon        = 400        // a lease with so little left has not been renewed for long
	punctual    = 20         // an expiry may come that much early
	oldEnough   = 90_000     // a marker knows the leases of the past, see also two TTLs
	longest     = 86_400_000 // no settling lasts longer
	settlesIn   = 60_000     // all who waited for a settling have asked again by then
	runsKept    = 20
	releaseText = 1000 // of characters that remember who has released
	mostPaused  = 90 * day
	largest     = 9007199254740000
)

// call is what a candidate says to the store; every verb takes its part of it.
type call struct {
	holder                               string
	ttl, minHold, tick, period, tries    int64
	from, to                             int64 // the times for which the tick was chosen
	exact                                bool
	seen, seenTTL, seenEnds, seenLeft    int64
	token, granted, holdUntil, lastUntil int64
	ran, success, atOnce, waits, offered bool
	exit                                 int64
	pause                                int64
}

func (c call) keep() int64 {
	return keep(time.Duration(c.ttl)*time.Millisecond, time.Duration(c.period)*time.Millisecond)
}

func (c call) round() int64 { return lease.Round(time.Duration(c.period)*time.Millisecond, c.exact) }
func (c call) reach() int64 { return lease.Reach(time.Duration(c.period)*time.Millisecond, c.exact) }

// kept is for how long the memory is: no less than it is already.
func (m *model) kept(keep int64) int64 { return max(keep, m.memoryEnd-m.now) }

// memory is what the store knows about a key beside the lease itself.
type memory struct {
	token                    int64  // of the last grant
	holder                   string // whose grant that was; empty once it has been released
	granted, holdUntil, tick int64
	ttl, ends                int64
	asked                    string   // token whose holder was asked to hand over
	offered                  string   // token whose holder would
	stopping                 string   // who was revoked and has not released since
	released                 []string // holders, the last one first
	since, due               int64    // a settling
	settler                  string   // the server where it began
	served                   int64    // the last tick with a success
	anchor, starts           int64    // the last round: its first tick, its starts
	pauseSince               int64    // nobody is granted the key
	pauseUntil               int64
	pauseBy                  string
	period, tries            int64  // of the newest grant with ticks
	meta                     string // of the last grant
	server                   string // that granted or renewed last
	candidates               string // hosts, and when each came first and last
}

var blank = memory{
	token: none, granted: none, holdUntil: none, tick: none, ttl: none, ends: none,
	since: none, due: none, served: none, anchor: none, starts: none, pauseSince: none, pauseUntil: none, period: none, tries: none,
}

type run struct {
	token    int64
	vanished bool
	record   string
}

// model is one key of one store.
type model struct {
	memory
	now   int64
	value string // of the lease; empty: there is none
	born  int64  // when the store began to remember, by its marker
	self  string // names the server
	runs  []run  // newest token first

	// When each key ends. In its last millisecond redis-server still shows a key,
	// miniredis does not.
	leaseEnd, memoryEnd, bornEnd, runsEnd, wakeEnd, ctlEnd int64
	lastMillisecond                                        bool
}

func newModel(lastMillisecond bool, self string) *model {
	return &model{memory: blank, now: began, born: none, lastMillisecond: lastMillisecond, self: self}
}

func (m *model) forget() {
	now := m.now
	*m = *newModel(m.lastMillisecond, m.self)
	m.now = now
}

// at lets time pass, or sets the clock back.
func (m *model) at(now int64) {
	m.now = now
	gone := func(end int64) bool { return end < now || end == now && !m.lastMillisecond }
	if gone(m.leaseEnd) {
		m.value = ""
	}
	if gone(m.memoryEnd) {
		m.memory, m.memoryEnd = blank, 0
	}
	if gone(m.bornEnd) {
		m.born = none
	}
	if gone(m.runsEnd) {
		m.runs = nil
	}
	if gone(m.wakeEnd) {
		m.wakeEnd = 0
	}
	if gone(m.ctlEnd) {
		m.ctlEnd = 0
	}
}

func (m *model) acquire(c call) []any {
	tick := c.tick
	if tick == 0 && c.ticks() {
		tick = m.now
	}
	switch mine := m.value == c.holder; {
	case m.token > largest:
		return m.fault("field token is out of range")
	case (mine || m.value == "") && m.holder == c.holder && m.token != none:
		return m.grantAgain(c, tick)
	case !mine && slices.Contains(m.released, c.holder):
		return m.answer(4)
	case !mine && c.to != 0 && (m.now < c.from || c.to <= m.now):
		return m.answer(6)
	case !mine && m.serves(m.served, tick, c):
		return m.done(c, m.served, "served")
	case !mine && m.value != "":
		return m.deny(c)
	case !mine && m.paused() > 0:
		m.come(c, false)
		return m.answer(5, append([]any{m.paused()}, m.shownPause()...)...)
	case !mine:
		if need, why := m.missing(c); need > 0 {
			if left := m.settle(need, m.kept(c.keep())); left > 0 {
				return m.answer(2, left, why)
			}
		}
		// A newer round has begun when its first tick is half a period away, or another.
		newer := 2*(m.anchor-tick) >= c.period
		if c.exact {
			newer = m.anchor > tick
		}
		if m.serves(m.anchor, tick, c) && (newer || c.tries > 0 && m.starts >= c.tries) {
			return m.done(c, m.anchor, "given-up")
		}
	}
	return m.grant(c, tick)
}

// serves says whether a run with the tick recorded is also one for tick.
func (m *model) serves(recorded, tick int64, c call) bool {
	same := 2*tick < 2*recorded+c.period
	if c.exact {
		same = tick <= recorded
	}
	return c.ticks() && recorded != none && same && !m.wrong(recorded, c)
}

// wrong says that no run can have been so far ahead of the clock: more than a period,
// or a day if the tick was named.
func (m *model) wrong(recorded int64, c call) bool {
	if c.exact {
		return recorded-m.now > max(c.period, day)
	}
	return recorded-m.now > c.period
}

func (c call) ticks() bool { return c.exact || c.period > 0 }

func (m *model) done(c call, tick int64, why string) []any {
	m.come(c, false)
	m.wakeEnd = m.now + wakeLife
	return m.answer(3, tick, why)
}

// come notes the host of a candidate that has ticks: when it is granted the key, or is turned
// away and the last note is an hour old.
func (m *model) come(c call, granted bool) {
	if why, _ := m.kind(); why == "foreign" || !c.ticks() {
		return
	}
	host, _, _ := strings.Cut(c.holder, "/")
	first, others := m.now, []string(nil)
	for _, noted := range regexp.MustCompile(`(\S+) (\d+) (\d+)`).FindAllStringSubmatch(m.candidates, -1) {
		from, _ := strconv.ParseInt(noted[2], 10, 64)
		last, _ := strconv.ParseInt(noted[3], 10, 64)
		switch {
		case noted[1] == host && !granted && last <= m.now && m.now < last+hour:
			return
		case last+c.keep() <= m.now:
		case noted[1] == host:
			first = min(from, m.now)
		case last > m.now:
			others = append(others, fmt.Sprint(noted[1], " ", min(from, m.now), " ", m.now))
		default:
			others = append(others, noted[0])
		}
	}
	all := append([]string{fmt.Sprint(host, " ", first, " ", m.now)}, others...)
	m.candidates = strings.Join(all[:min(len(all), lease.MaxCandidates)], " ")
	m.memoryEnd = m.now + m.kept(c.keep())
}

func (m *model) deny(c call) []any {
	why, _ := m.kind()
	ttl, since := c.ttl, int64(0)
	if why != "foreign" {
		ttl = or(m.ttl, ttl)
	}
	if m.value == m.holder {
		since = max(0, m.now-or(m.granted, m.now))
	}
	left := m.leaseEnd - m.now
	switch most := max(ttl, m.rest(or(m.granted, m.now), or(m.holdUntil, m.now))); {
	case why == "foreign" && m.leaseEnd == never:
		left = ttl
	case why != "foreign" && (m.leaseEnd == never || left > most && m.ttl != none): // or the clock has gone back
		if left, m.leaseEnd = most, m.now+most; m.token != none {
			m.ends = m.leaseEnd
		}
	}
	if m.value == m.holder && m.token != none && left <= soon {
		m.settle(settling, m.kept(c.keep()))
	}
	if c.waits && why == "held" && m.value == m.holder && m.token != none && m.offered == fmt.Sprint(m.token) && m.paused() == 0 {
		m.asked = m.offered
	}
	m.come(c, false)
	return m.answer(0, left, why, m.value, or(m.token, 0), ttl, since, or(m.ends, 0))
}

// rest is what is left of a minimum hold, never more than all of it.
func (m *model) rest(granted, until int64) int64 {
	return max(0, min(until-m.now, until-granted))
}

// kind says what stands at the key, and whose it is.
func (m *model) kind() (why, id string) {
	if m.value == "" {
		return "", ""
	}
	why, id, marked := strings.Cut(m.value, ":")
	if !marked {
		why, id = "held", m.value
	}
	if !strings.HasPrefix(id, "host-") {
		return "foreign", ""
	}
	return why, id
}

// missing says how long a holder of whom the store cannot know, or whose lease is
// over by its clock alone, may still come back.
func (m *model) missing(c call) (need int64, why string) {
	ttl := or(m.ttl, c.ttl)
	switch {
	case c.seen > or(m.token, 0):
		return max(settling, c.seenTTL), "rollback"
	case m.token == none && (m.born == none || m.now-m.born <= max(2*c.ttl, oldEnough)):
		return settling, "fresh"
	case m.token == none:
		return 0, ""
	case m.holder == "":
	case or(m.ends, 0) > m.now+punctual:
		need, why = min(m.ends-m.now, max(ttl, c.minHold)), "vanished"
	case c.seen == m.token && c.seenEnds == or(m.ends, 0):
		need, why = max(settling, min(c.seenLeft, ttl)), "expired"
	default:
		need, why = settling, "expired"
	}
	if m.server != "" && m.self != "" && m.server != m.self && need <= settling {
		return settling, "restarted"
	}
	return need, why
}

// settle begins a settling or goes on with the one that is under way.
func (m *model) settle(need, keep int64) (left int64) {
	under := m.since != none && m.due != none && m.settler == m.self && m.since <= m.now && m.due <= m.now+longest && m.now <= m.due+settlesIn
	if !under {
		m.since, m.due, m.settler = m.now, m.now, m.self
		m.memoryEnd = m.now + keep
		m.ctlEnd = m.now + wakeLife
	}
	m.due = max(m.due, m.since+need)
	return m.due - m.now
}

func (m *model) grant(c call, tick int64) []any {
	token := max(or(m.token, 0)+1, c.seen+1, m.now)
	if token > largest {
		return m.fault("token is out of range")
	}
	if m.token != none && m.holder != c.holder && strings.HasPrefix(m.holder, "host-") {
		m.file(m.token, or(m.tick, 0), or(m.granted, 0), min(or(m.ends, m.now), m.now), none, m.holder, m.kept(c.keep()))
	}
	if c.ticks() {
		if !m.serves(m.anchor, tick, c) {
			m.anchor, m.starts = tick, 0
		}
		m.starts = or(m.starts, 0) + 1
		m.tries = c.tries
	}
	if c.period > 0 {
		m.period = c.period
	}
	m.come(c, true)
	m.hold(c, token, tick, m.now, m.now+c.minHold)
	m.mark()
	m.wakeEnd, m.ctlEnd = 0, 0
	return m.answer(1, token, tick, m.now, m.now+c.minHold)
}

// hold writes a lease and what must be known of it.
func (m *model) hold(c call, token, tick, granted, holdUntil int64) {
	end := m.now + max(c.ttl, m.rest(granted, holdUntil))
	m.value, m.leaseEnd = c.holder, end
	m.token, m.holder, m.tick, m.granted, m.holdUntil = token, c.holder, tick, granted, holdUntil
	m.ttl, m.ends, m.since, m.due, m.meta, m.server, m.stopping = c.ttl, end, none, none, "{}", m.self, ""
	m.memoryEnd = max(m.now+m.kept(c.keep()), end)
}

// mark notes when the store began to remember.
func (m *model) mark() {
	if m.born == none {
		m.born, m.bornEnd = m.now, m.now+34*day
	}
}

func (m *model) grantAgain(c call, tick int64) []any {
	holdUntil := min(or(m.holdUntil, 0), m.now+c.minHold)
	m.leaseEnd = m.now + max(c.ttl, holdUntil-m.now)
	m.value, m.ends, m.since, m.due = c.holder, m.leaseEnd, none, none
	return m.answer(1, m.token, or(m.tick, tick), or(m.granted, m.now), holdUntil)
}

func (m *model) renew(c call) []any {
	asked := int64(0)
	if m.asked == fmt.Sprint(c.token) {
		asked = 1
	}
	switch counter := or(m.token, 0); {
	case m.token > largest:
		return m.fault("field token is out of range")
	case m.value == c.holder && counter > c.token, m.value == "" && counter > c.token:
		return m.answer(0, "newer", m.value)
	case m.value == "cooldown:"+c.holder, m.value == "revoked:"+c.holder:
		return m.answer(0, strings.TrimSuffix(m.value, ":"+c.holder), m.value)
	case m.value != "" && m.value != c.holder && !m.older(c.token):
		return m.answer(0, "other", m.value)
	case m.value != c.holder && m.holder != c.holder && (counter == c.token || slices.Contains(m.released, c.holder)):
		return m.answer(0, "released", "")
	case m.value != c.holder:
		m.hold(c, c.token, c.tick, c.granted, c.holdUntil)
		m.mark()
		m.confirm(c)
		return m.answer(2, asked)
	}
	if m.token == c.token && m.holder == c.holder {
		m.ends, m.server = m.now+max(c.ttl, m.rest(c.granted, c.holdUntil)), m.self
		m.since, m.due = none, none
		m.leaseEnd, m.memoryEnd = m.ends, max(m.ends, m.now+m.kept(c.keep()))
	} else {
		m.hold(c, c.token, c.tick, c.granted, c.holdUntil)
	}
	m.confirm(c)
	return m.answer(1, asked)
}

// confirm notes whether a holder would hand over. A call that came before has its answer.
func (m *model) confirm(c call) {
	m.ctlEnd = 0
	if m.offered = ""; c.offered {
		m.offered = fmt.Sprint(c.token)
	}
}

// older says that what stands at the key came back with an older state.
func (m *model) older(token int64) bool {
	why, _ := m.kind()
	return why != "foreign" && m.token != none && m.token < token && m.server != "" && m.self != "" && m.server != m.self
}

func (m *model) release(c call) []any {
	counter, value := or(m.token, 0), m.value
	if m.token > largest {
		return m.fault("field token is out of range")
	}
	has := value == c.holder && counter <= c.token || value == "revoked:"+c.holder
	last := m.holder == c.holder && counter <= c.token || m.stopping == c.holder
	if has {
		m.value = ""
		if rest := m.rest(c.granted, c.holdUntil); value == c.holder && c.ran && rest > 0 {
			m.value, m.leaseEnd = "cooldown:"+c.holder, m.now+rest
		}
	}
	if has || last {
		m.holder, m.asked, m.stopping, m.since, m.due = "", "", "", none, none
		m.token = max(counter, c.token)
		m.wakeEnd = m.now + wakeLife
	}
	later := 2*c.tick >= 2*m.anchor+c.period
	if c.exact {
		later = c.tick > m.anchor
	}
	if c.ticks() && (has || last) && !c.ran && m.anchor != none && !later && m.starts > 0 {
		m.starts--
	}
	if c.ticks() && c.success && (c.tick > m.served || m.wrong(m.served, c)) {
		m.served = c.tick
	}
	if known := slices.Contains(m.released, c.holder); !known || has || last || c.success {
		if !known {
			m.retire(c.holder)
		}
		m.memoryEnd = m.now + m.kept(c.keep())
	}
	if c.ran {
		m.file(c.token, c.tick, c.granted, m.now, c.exit, c.holder, m.kept(c.keep()))
	}
	switch {
	case has, value == "cooldown:"+c.holder:
		return m.answer(1)
	case value == "":
		return m.answer(0, "gone", "")
	}
	return m.answer(0, "other", value)
}

// retire remembers who is never granted anything again.
func (m *model) retire(holder string) {
	m.released = slices.Insert(m.released, 0, holder)
	m.released = m.released[:min(len(m.released), releaseText/(len(holder)+2))]
}

// file keeps one record per token. That a run vanished gives way to the truth.
func (m *model) file(token, tick, start, end, exit int64, holder string, keep int64) {
	at := slices.IndexFunc(m.runs, func(r run) bool { return r.token <= token })
	switch {
	case at < 0:
		at = len(m.runs)
	case m.runs[at].token == token && !m.runs[at].vanished:
		return
	case m.runs[at].token == token:
		m.runs = slices.Delete(m.runs, at, at+1)
	}
	host, _, _ := strings.Cut(holder, "/")
	ended := fmt.Sprint(exit)
	if exit == none {
		ended = `0,"vanished":true`
	}
	m.runs = slices.Insert(m.runs, at, run{token, exit == none, fmt.Sprintf(
		`{"token":%d,"tick":%d,"start":%d,"end":%d,"exit":%s,"host":%q,"holder":%q}`, token, tick, start, end, ended, host, holder)})
	m.runs = m.runs[:min(len(m.runs), runsKept)]
	m.runsEnd = m.now + keep
}

func (m *model) answer(code int, more ...any) []any { return append([]any{code, m.now}, more...) }

func (m *model) fault(what string) []any {
	return []any{"LEADERRUN leaderrun:state:{leaderrun:leader:k}: " + what}
}

// spoil overwrites one field of the memory, by its name in the store.
func (m *model) spoil(field, text string) {
	n := int64(none)
	if len(text) <= 16 && strings.Trim(text, "0123456789") == "" {
		n, _ = strconv.ParseInt(text, 10, 64) // of nothing, too
		if text == "" {
			n = none
		}
	}
	switch field {
	case "holder":
		m.holder = text
	case "hand_over":
		m.asked = text
	case "offered":
		m.offered = text
	case "revoked":
		m.stopping = text
	case "released":
		m.released = nil
	case "server":
		m.server = text
	case "candidates":
		m.candidates = text
	case "settle_server":
		m.settler = text
	default:
		*map[string]*int64{
			"token": &m.token, "acquired": &m.granted, "min_hold_until": &m.holdUntil, "tick": &m.tick, "ttl": &m.ttl, "expires": &m.ends,
			"settle_since": &m.since, "settle_due": &m.due, "served_tick": &m.served, "series_tick": &m.anchor, "starts": &m.starts,
			"paused_since": &m.pauseSince, "paused_until": &m.pauseUntil, "period": &m.period, "tries": &m.tries,
		}[field] = n
	}
}

func or(n, otherwise int64) int64 {
	if n == none {
		return otherwise
	}
	return n
}
