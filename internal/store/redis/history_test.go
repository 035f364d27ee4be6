package redis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Random histories of one key. Candidates behave as leaderrun does, but their
// messages may come late or twice, and the store may have a fault.

// step is one thing that happens to the store.
type step struct {
	wait int64 // milliseconds since the step before; below 0 the clock is set back
	verb string
	call
	text []string // what a fault writes
}

func (s step) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+d ms: %s %s", s.wait, s.verb, s.holder)
	for _, text := range s.text {
		fmt.Fprintf(&b, " %q", text)
	}
	for _, field := range []struct {
		name string
		n    int64
	}{
		{"ttl", s.ttl}, {"min hold", s.minHold}, {"tick", s.tick}, {"period", s.period}, {"tries", s.tries}, {"seen", s.seen},
		{"seen ttl", s.seenTTL}, {"seen ends", s.seenEnds}, {"seen left", s.seenLeft}, {"token", s.token}, {"granted", s.granted}, {"hold until", s.holdUntil}, {"last until", s.lastUntil}, {"pause", s.pause},
		{"from", s.from}, {"to", s.to},
	} {
		if field.n > began/2 {
			fmt.Fprintf(&b, " %s began%+d", field.name, field.n-began)
		} else if field.n != 0 {
			fmt.Fprintf(&b, " %s %d", field.name, field.n)
		}
	}
	if s.verb == "release" {
		fmt.Fprintf(&b, " ran %t success %t", s.ran, s.success)
	}
	if s.atOnce { // of forget: with the token
		b.WriteString(" at once")
	}
	if s.exact {
		b.WriteString(" exact")
	}
	if s.waits {
		b.WriteString(" waits")
	}
	if s.offered {
		b.WriteString(" offered")
	}
	return b.String()
}

func (m *model) do(s step) []any {
	m.at(m.now + s.wait)
	switch s.verb {
	case "acquire":
		return m.acquire(s.call)
	case "renew":
		return m.renew(s.call)
	case "release":
		return m.release(s.call)
	case "pass":
		return m.pass()
	case "handover":
		return m.handOver()
	case "revoke":
		return m.revoke(s.atOnce)
	case "pause":
		return m.pause(s.call)
	case "resume":
		return m.resume()
	case "forget":
		return m.forgetKey(s.atOnce)
	case "forget the lease":
		m.value = ""
	case "forget the state":
		m.memory, m.memoryEnd = blank, 0
	case "forget all":
		m.forget()
	case "spoil":
		m.spoil(s.text[0], s.text[1])
		m.memoryEnd = m.now + hour
	case "put":
		m.value, m.leaseEnd = s.text[0], m.now+s.ttl
	case "put for ever":
		m.value, m.leaseEnd = s.text[0], never
	}
	return nil
}

const (
	second = 1000
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)

// candidate is what somebody would say next.
type candidate struct {
	call
	leads bool
}

// world writes a history, and plays it on a model to know what comes of it.
type world struct {
	*rand.Rand
	*model
	steps      []step
	candidates []*candidate
	holders    int
	trouble    string // what happens most often, if anything does
	field      string // what is spoilt most often
	period     int64
	ttl        int64
	exact      bool // candidates name their ticks
}

func newWorld(seed int64, m *model) *world {
	w := &world{Rand: rand.New(rand.NewPCG(uint64(seed), 0)), model: m}
	w.period = w.pick(2*second, 2*second+1, minute, hour, day)
	w.ttl = w.pick(second, 30*second, 90*second, 8*hour)
	w.exact = seed%7 == 3
	return w
}

// name gives the candidate the tick for a time that may be another than the store's.
func (w *world) name(c *call, now int64) {
	c.exact, c.tick = true, now-now%w.period
	c.from, c.to = c.tick, c.tick+w.period
	if w.IntN(4) == 0 { // by name alone
		c.from, c.to = 0, 0
	}
}

func (w *world) pick(of ...int64) int64 { return of[w.IntN(len(of))] }

func (w *world) add(s step) []any {
	w.steps = append(w.steps, s)
	return w.do(s)
}

// again sends a message of the past once more.
func (w *world) again(wait int64) {
	if s := w.steps[w.IntN(len(w.steps))]; s.holder != "" {
		s.wait = wait
		w.add(s)
	}
}

// troubled is a history in which everything may happen, in three of four also to
// the store.
func troubled(seed int64, m *model, setBack bool) []step {
	w := newWorld(seed, m)
	w.trouble, w.field = "spoil", fields[seed/2%int64(len(fields))]
	if seed%4 == 2 {
		w.trouble = troubles[seed/4%int64(len(troubles))]
	}
	length := 40
	if seed%16 == 8 { // the lists of the last runs and of those who have released fill up
		length = 400
	}
	for len(w.steps) < length {
		s := step{wait: w.pause()}
		switch choice := w.IntN(24); {
		case setBack && choice == 0:
			s.wait, s.verb = -w.pick(1, second, w.period, day, 80*day), "pass"
			w.add(s)
		case choice == 1:
			s.verb = "pass"
			w.add(s)
		case len(w.steps) > 0 && choice <= 3:
			w.again(s.wait)
		case seed%4 != 0 && choice <= 9 && (w.led() || choice == 4):
			w.fault(s)
		case len(w.candidates) == 0 || len(w.candidates) < 5 && choice <= 14:
			line := call{
				period: w.pick(0, w.period, w.period, w.period, 2*second), tries: w.pick(0, 1, 2, 3),
				minHold: w.pick(0, 0, 3*second, 2*w.ttl),
			}
			if w.IntN(8) == 0 { // it has met a holder that the store may have forgotten
				line.seen, line.seenTTL = w.now+w.pick(-second, 0, hour), w.pick(0, 200, w.ttl)
			}
			if w.exact {
				w.name(&line, w.now+w.pick(0, 0, 0, -w.period, w.period))
			}
			w.ask(w.arrive(line), s)
		default:
			w.act(s)
		}
	}
	// Whatever it was, it is forgotten at last, and begins anew.
	w.add(step{verb: "revoke", call: call{atOnce: true}})
	w.add(step{verb: "forget", call: call{atOnce: seed%2 == 0}})
	w.ask(w.arrive(call{period: w.period, tries: 1}), step{})
	return w.steps
}

// pause often ends where a rule changes its mind.
func (w *world) pause() int64 {
	edges := []int64{
		w.leaseEnd, w.ends, w.ends - punctual, w.holdUntil, w.due, w.due + settlesIn, w.wakeEnd, w.ctlEnd, w.memoryEnd,
		w.served + w.period/2, w.anchor + w.period/2, w.served - w.period, w.anchor - w.period, w.pauseUntil,
		w.born + oldEnough, w.born + 2*w.ttl,
	}
	for _, c := range w.candidates {
		edges = append(edges, c.lastUntil)
	}
	edges = slices.DeleteFunc(edges, func(at int64) bool { return at < w.now || at > w.now+100*day })
	slices.Sort(edges) // the next ones most often
	switch choice := w.IntN(12); {
	case choice < 3 && len(edges) > 0:
		return max(0, edges[w.IntN(1+w.IntN(len(edges)))]-w.now+w.pick(-1, 0, 1, 2))
	case choice < 5:
		return w.Int64N(1 + w.ttl/3)
	case choice < 6:
		return w.Int64N(1 + w.pick(w.period/2, w.period, w.ttl, settling))
	}
	return w.Int64N(5)
}

func (w *world) arrive(line call) *candidate {
	w.holders++
	c := &candidate{call: line}
	c.holder, c.ttl = fmt.Sprintf("host-%c/%04d/%032x", 'a'+w.IntN(3), w.holders, w.holders), w.pick(w.ttl, w.ttl, second)
	w.candidates = append(w.candidates, c)
	return c
}

// led says whether somebody leads, who may notice what happens to the store.
func (w *world) led() bool {
	return slices.ContainsFunc(w.candidates, func(c *candidate) bool { return c.leads && w.now < c.lastUntil })
}

func (w *world) leave(c *candidate) {
	w.candidates = slices.DeleteFunc(w.candidates, func(other *candidate) bool { return c == other })
}

// act lets a candidate, most often the leader, do what it may do next, or die.
func (w *world) act(s step) {
	c := w.candidates[w.IntN(len(w.candidates))]
	if i := slices.IndexFunc(w.candidates, func(c *candidate) bool { return c.leads }); i >= 0 && w.IntN(4) > 0 {
		c = w.candidates[i]
	}
	s.call = c.call
	switch {
	case w.IntN(10) == 0:
		w.leave(c)
	case !c.leads, w.IntN(6) == 0: // a leader whose grant was lost asks again
		w.ask(c, s)
	case w.IntN(2) == 0:
		s.verb, s.offered = "renew", w.IntN(3) == 0
		if a := w.add(s); a[0] == 0 {
			c.lastUntil = 0 // lost
		} else {
			c.lastUntil = w.now + c.ttl
		}
	default:
		s.verb = "release"
		s.ran = w.IntN(4) > 0
		s.success = s.ran && w.IntN(2) == 0
		s.exit = w.Int64N(3)
		w.leave(c)
		w.add(s)
	}
}

func (w *world) ask(c *candidate, s step) {
	s.verb, s.call = "acquire", c.call
	s.waits = w.IntN(2) == 0
	switch a := w.add(s); a[0] {
	case 1:
		c.leads, c.lastUntil = true, w.now+c.ttl
		c.token, c.tick, c.granted, c.holdUntil = a[2].(int64), a[3].(int64), a[4].(int64), a[5].(int64)
	case 0, 2, 5, 6:
		if a[0] == 0 && w.IntN(4) > 0 { // an answer has shown it that lease
			c.seen, c.seenTTL, c.seenEnds, c.seenLeft = a[5].(int64), a[6].(int64), a[8].(int64), w.pick(0, 0, 1, w.ttl)
		}
		if w.IntN(8) == 0 { // the answer was lost
			return
		}
		if c.to != 0 {
			c.tick, c.from, c.to = w.now-w.now%w.period, 0, 0
		}
		if c.tick == 0 {
			c.tick = w.now
		}
	default:
		w.leave(c)
	}
}

var (
	troubles = []string{"forget the lease", "forget the state", "forget all", "revoke", "handover", "pause", "put", "put for ever", "spoil"}
	fields   = []string{"token", "holder", "acquired", "min_hold_until", "tick", "ttl", "expires", "hand_over", "released", "settle_since", "settle_due", "served_tick", "series_tick", "starts", "server", "settle_server", "paused_since", "paused_until", "period", "offered", "candidates", "revoked"}
)

// fault does what this history's trouble is, most often.
func (w *world) fault(s step) {
	if s.verb = w.trouble; w.IntN(4) == 0 {
		s.verb = troubles[w.IntN(len(troubles))]
	}
	somebody := w.holder
	if somebody == "" {
		somebody = "host-c/0000/" + strings.Repeat("0", 32)
	}
	switch s.verb {
	case "spoil":
		field := w.field
		if w.since != none && w.IntN(2) == 0 {
			field = []string{"settle_since", "settle_due", "settle_server"}[w.IntN(3)]
		}
		s.text = []string{field, w.garbage(field)}
	case "revoke":
		s.atOnce = w.IntN(3) == 0
	case "pause":
		s.call.pause = w.pick(1, second, w.ttl, hour, mostPaused)
		switch {
		case w.paused() > 0 && w.IntN(2) == 0:
			s.verb = "resume"
		case w.IntN(3) == 0:
			s.verb, s.call = "forget", call{atOnce: w.IntN(3) == 0}
		}
	case "put", "put for ever":
		values := []string{"foreign", "cooldown:foreign", somebody, "cooldown:" + somebody}
		s.ttl, s.text = w.pick(1, second, w.ttl), []string{values[w.IntN(len(values))]}
	}
	w.add(s)
	if strings.HasPrefix(s.verb, "put") && w.IntN(3) == 0 { // what stands there by nobody's grant is taken away
		w.add(step{verb: "revoke"})
	}
}

func (w *world) garbage(field string) string {
	if field == "candidates" && w.IntN(2) == 0 {
		ago := w.pick(0, hour-1, hour, 35*day-1, 35*day, -minute, -80*day)
		return fmt.Sprintf("host-a %d %d x host-b %d 7 host-%c %d %[2]d", w.now-2*ago, w.now-ago, w.now, 'a'+w.IntN(3), w.now)
	}
	if field == "token" && w.IntN(2) == 0 {
		return fmt.Sprint(largest + w.pick(0, 0, 1))
	}
	return []string{
		[]string{"", "x", "-1", "1e9", "0x10", " 7"}[w.IntN(6)],
		"99999999999999999", // too long to be a number of ours
		"8888888888888",     // the far future
		fmt.Sprint(w.now + w.pick(-minute, minute, day)),
		fmt.Sprint(w.pick(0, 7, w.token)),
	}[w.IntN(5)]
}

// scheduled is a history of one crontab line on hosts whose clocks differ by less
// than half a period. The line says --once-per, or --min-hold, and nothing damages
// the store. Ticks of round n are those from began + n periods on.
func scheduled(seed int64) []step {
	w := newWorld(seed, newModel(false, "self"))
	line := call{period: w.period, tries: w.pick(1, 2, 3)}
	if w.IntN(4) == 0 {
		line = call{minHold: w.pick(second, w.period/3)}
	}
	var next, skew [4]int64
	for host := range skew {
		skew[host] = w.Int64N((w.period + 1) / 2)
		next[host] = began + skew[host]
	}
	for range 80 {
		s := step{wait: w.pause()}
		w.candidates = slices.DeleteFunc(w.candidates, func(c *candidate) bool {
			return !c.leads && c.tick != 0 && c.tick+w.period <= w.now+s.wait
		})
		switch host := slices.Index(next[:], slices.Min(next[:])); {
		case w.now+s.wait >= next[host]:
			if w.IntN(5) > 0 { // else this host is down
				w.ask(w.arrive(line), step{wait: max(0, next[host]-w.now)})
			}
			next[host] += w.period
		case len(w.steps) > 0 && w.IntN(12) == 0 && inTime(w.now+s.wait, w.period):
			w.again(s.wait)
		case len(w.candidates) > 0:
			w.act(s)
		}
	}
	return w.steps
}
