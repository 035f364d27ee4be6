package simulate

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

const (
	prefix = "leaderrun"
	key    = "k"
)

// dice is a random generator that several goroutines may use.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (d *dice) IntN(n int) int { return int(d.Int64N(int64(n))) }

func (d *dice) Int64N(n int64) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.Int64N(n)
}

// world is one schedule: hosts, a store, their faults, and the checker, which sees everything
// and does not depend on any of their clocks.
type world struct {
	t     *testing.T
	seed  uint64
	start time.Time
	clock storeClock
	store backend
	// server is the number of the store's server process: it changes with every restart.
	server atomic.Int64
	hosts  []*host
	// drawn counts faults; those with the numbers in drop are left out.
	drawn int
	drop  []int
	// forgetful: the store also loses acknowledged data, and promises less.
	forgetful bool
	rounds    int           // of nine TTLs each
	pause     time.Duration // until a process is restarted, at most
	unwatched time.Duration // by how much the store's clocks may differ
	jobs      *jobs         // nil: candidates stand by for ever
	silent    bool          // the store calls and wakes nobody
	// mix is what may come upon this world, and troubles what its network may do.
	mix      []kind
	troubles []trouble
	operator *operator
	// grantTrap happens to the next process that is granted the key, while the answer is on its way.
	grantTrap func(*process)
	// choosy: hosts may be ineligible. fit: none is ineligible any more.
	choosy bool
	fit    atomic.Bool
	// hooked: the exec of hooks may hang, and every process rejoins.
	hooked bool
	// turn is held while a request may change the store.
	turn      chan struct{}
	living    sync.WaitGroup // hosts
	processes sync.WaitGroup
	faults    sync.WaitGroup

	mu          sync.Mutex
	generators  uint64
	holders     int
	down        int
	over        bool
	lastFault   time.Duration
	lastLive    time.Duration
	forgot      time.Duration // when the store last lost data
	restarted   time.Duration
	hostsDiffer bool          // the clock of a host was set
	stepped     time.Duration // until then a request may have read its clock before it was set forward
	backed      time.Duration // the same before it was set back
	setBack     time.Duration // by how much its clock was set back in all
	evicted     bool          // it lost everything but the lease
	takenAt     time.Duration // when another program last took the key
	saved       bool
	// pausedUntil, by the store's clock, nobody may be granted the key; 0 if that was never
	// so. It was set at pausedAt.
	pausedUntil int64
	pausedAt    time.Duration
	revoked     map[string]time.Duration // when a holder's lease was revoked
	live        []*tree
	tokens      map[string]int64 // of all grants
	largest     int64
	until       map[string]time.Duration // when a holder's lease ends by the store's last word, on the world's clock
	grantedAt   map[string]time.Duration
	writtenAt   map[string]time.Duration // when a holder's lease was last granted or renewed
	acquired    map[string]int64         // when, by the store's clock
	lines       []string
	hash        uint64
	failure     string
	count       count
}

// count is what happened in a schedule, or in many.
type count struct {
	runs, grants, faults, overlaps, requests int
	hooks, leftOut                           int // run, and left out with a warning
}

// storeClock is the store's clock. It is faster or slower than the hosts' clocks by up to one
// percent, and faults set it forward and back.
type storeClock struct {
	mu    sync.Mutex
	since time.Duration // the world's time when it was last set
	shown time.Time     // its time then
	rate  float64
}

func (c *storeClock) at(now time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown.Add(time.Duration(float64(now-c.since) * c.rate))
}

// set steps the clock and changes its rate.
func (c *storeClock) set(now, step time.Duration, rate float64) {
	shown := c.at(now).Add(step)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since, c.shown, c.rate = now, shown, rate
}

func anyRate(rng *dice) float64 {
	return []float64{0.99, 1.01, 1 + float64(rng.IntN(2001)-1000)/100_000}[rng.IntN(3)]
}

func newWorld(t *testing.T, seed uint64) *world { return newWorldWith(t, seed, newRedis) }

func newWorldWith(t *testing.T, seed uint64, newStore func(*world) backend) *world {
	w := &world{
		t: t, seed: seed, rounds: 1, pause: time.Second, start: time.Now(), turn: make(chan struct{}, 1),
		tokens: map[string]int64{}, until: map[string]time.Duration{}, grantedAt: map[string]time.Duration{}, writtenAt: map[string]time.Duration{}, acquired: map[string]int64{}, revoked: map[string]time.Duration{},
	}
	rng := w.rng()
	w.forgetful, w.choosy = seed%3 == 2, seed%4 == 1
	w.clock.shown, w.clock.rate = w.start.AddDate(20, 0, 0), anyRate(rng) // a bubble's time begins in 2000
	w.server.Store(1)
	w.store = newStore(w)
	w.setClock()
	ttls := []time.Duration{time.Second, 3 * time.Second, 10 * time.Second, 30 * time.Second}
	ttl := ttls[rng.IntN(len(ttls))]
	mixed := rng.IntN(3) == 0
	for _, name := range []string{"a", "b", "c"} {
		if mixed {
			ttl = ttls[rng.IntN(len(ttls))]
		}
		w.hosts = append(w.hosts, &host{w: w, name: name, rng: w.rng(), ttl: ttl, offset: time.Hour + w.upTo(rng, 1000*time.Hour)})
	}
	w.operator = newOperator(w)
	w.swarm(rng, w.never()...)
	return w
}

// never are the kinds of fault that this world does not have.
func (w *world) never() (none []kind) {
	if !w.forgetful {
		none = append(none, storeForgets)
	}
	if w.jobs != nil {
		none = append(none, storeClockSet)
	}
	return none
}

func (w *world) longestTTL() time.Duration {
	ttl := time.Duration(0)
	for _, h := range w.hosts {
		ttl = max(ttl, h.ttl)
	}
	return ttl
}

func (w *world) at() time.Duration { return time.Since(w.start) }

// rng returns a generator for one part of the world, so that what it draws does not depend on
// the others.
func (w *world) rng() *dice {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.generators++
	return &dice{r: rand.New(rand.NewPCG(w.seed, w.generators))}
}

func (w *world) upTo(rng *dice, d time.Duration) time.Duration {
	return 1 + time.Duration(rng.Int64N(int64(d)))
}

func (w *world) latency(rng *dice) time.Duration { return w.upTo(rng, 2*time.Millisecond) }

// newHolder returns ids like those of two containers with the same host name and process id.
func (w *world) newHolder() lease.Holder {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holders++
	return lease.Holder(fmt.Sprintf("twin/7/%032x", w.holders))
}

// setClock sets the clock that the store shows.
func (w *world) setClock() { w.store.showTime(w.clock.at(w.at())) }

// stepClock sets the store's clock.
func (w *world) stepClock(step time.Duration, rate float64) {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	w.setClock()
	w.store.stepped(step)
	w.clock.set(w.at(), step, rate)
	w.setClock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteLocked("the store's clock is set by %s, its rate is %.4f", step, rate)
	w.lastFault = w.at()
	attempt := w.at() + w.longestTTL()/15
	if step > 0 {
		w.stepped = attempt
	} else {
		w.setBack -= step
		w.backed = attempt + 2*w.longestTTL() // in a slow network it comes so much later
	}
}

// save saves the store's data for a later restart.
func (w *world) save() {
	w.store.save()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.saved = true
	w.noteLocked("the store is saved")
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteLocked(format, args...)
}

func (w *world) noteLocked(format string, args ...any) {
	if w.failure != "" { // later failures may follow from it
		return
	}
	line := fmt.Sprintf("%12.6f ", w.at().Seconds()) + fmt.Sprintf(format, args...)
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %s", w.hash, line)
	w.hash = h.Sum64()
	const most = 20_000
	if w.lines = append(w.lines, line); len(w.lines) > most {
		w.lines = w.lines[most/2:]
	}
}

func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(format, args...)
}

func (w *world) failLocked(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.noteLocked("BROKEN: %s", text)
	if w.failure == "" {
		w.failure = text
	}
}

// faulty records that a fault had an effect.
func (w *world) faulty() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastFault = w.at()
}

func (w *world) isOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over
}

func (w *world) isDown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.down > 0
}

// seen is what the store has of the key.
type seen struct {
	value    string
	left     time.Duration // by its clock
	until    time.Duration // on the world's clock
	id       string
	token    int64
	tick     int64
	acquired int64  // of the newest grant, by its clock
	ticks    string // what is recorded of ticks
	anchor   int64  // the first tick of the series; 0 if a restored lease does not begin one
}

func (w *world) look() seen {
	w.setClock()
	s := w.store.look()
	s.until = w.at() + s.left*100/99 // by the slowest clock
	return s
}

// judge checks what one request did to the store.
func (w *world) judge(p *process, request []byte, before, after seen) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count.requests++
	p.asked = w.at()
	if p == w.operator.p {
		w.judgeOperator(before, after)
		return
	}
	w.mayLose(p, request, before)
	const noise = 20 * time.Millisecond
	// After the clock was set back any request may make a lease as short as it was before.
	changed := (after.until-before.until).Abs() > noise && !(w.setBack > 0 && after.until < before.until)
	if x := before.value; x != "" && w.forgot > 0 && after.value != x && after.token > before.token && w.store.names(request, after.value) && (!w.lives(idIn(x)) || w.revoked[idIn(x)] > 0) {
		w.noteLocked("%s: takes its lease back from %s", p, x)
	} else if x != "" && x != foreign && (after.value != x || changed) {
		overBefore := w.at() < w.backed && after.value != x && !w.lives(x) // by the clock before it was set back
		if !w.store.names(request, idIn(x)) && !overBefore {
			w.failLocked("I6: a request of %s changed the lease of %s", p, x)
		}
		if after.value != x {
			w.noteLocked("%s: releases %s", p, x)
			if w.lives(idIn(x)) {
				w.failLocked("I6: %s was released while its tree lives", x)
			}
		}
	}
	if x := after.value; x != "" {
		if w.store.names(request, x) && (before.value != x || after.until > before.until) {
			w.writtenAt[x] = w.at()
		}
		w.until[x] = max(w.until[x], after.until)
		for _, t := range w.live {
			if string(t.lease.Holder) == x && w.store.names(request, x) && (before.value != x || after.until > before.until) {
				t.out, t.seen = 0, w.readAt(t.p, after)
			}
		}
	}
	if after.id == "" {
		return
	}
	// If a request read the clock before it was set forward, its lease ends earlier by the new
	// time, or has already ended. Its holder's own clock ends it one TTL after the request.
	if w.at() < w.stepped && w.store.names(request, after.id) {
		w.until[after.id] = max(w.until[after.id], w.at()+p.set.TTL)
	}
	// A store that has lost data may show an earlier grant of the same holder, which is no new one.
	if w.tokens[after.id] != after.token && (before.id != after.id || before.token != after.token) {
		// If the counter was lost and the clock is behind, tokens may repeat.
		if after.token <= w.largest && !(w.forgot > 0 && w.setBack+w.unwatched > 0) {
			w.failLocked("I2: token %d was granted after %d", after.token, w.largest)
		}
		w.noteLocked("%s: granted %s token %d", p, after.id, after.token)
		if w.stored(w.at())+w.unwatched.Milliseconds() < w.pausedUntil && w.forgot < w.pausedAt && w.at() >= w.backed {
			w.failLocked("%s was granted the key in a pause", after.id)
		}
		w.count.grants++
		w.tokens[after.id], w.largest, w.grantedAt[after.id], w.acquired[after.id] = after.token, max(w.largest, after.token), w.readAt(p, after), after.acquired
		if f := w.grantTrap; f != nil {
			w.grantTrap = nil
			p.setTrap(func() { f(p) })
		}
		if w.jobs != nil {
			w.jobs.granted(after.tick)
		}
	} else if before.token < after.token && w.jobs != nil && after.anchor != 0 { // the store had lost it
		w.jobs.putBack(after.anchor, w.lives(after.id))
	}
}

// readAt is when a request read the clock that has written this lease of p. It may have come
// late, when the clock had been set forward.
func (w *world) readAt(p *process, s seen) time.Duration {
	return w.at() - max(0, p.set.TTL-s.left)
}

// forget is what a store does that loses what it acknowledged.
func (w *world) forget(lose func() (what string)) {
	before := w.look()
	what := lose()
	after := w.look()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteLocked("the store forgets: %s", what)
	w.evicted = w.evicted || after.value != "" && after.token == 0
	w.forgot, w.lastFault = w.at(), w.at()
	if w.jobs != nil {
		w.jobs.forget(after.ticks != before.ticks)
	}
	for _, t := range w.live {
		if string(t.lease.Holder) == before.value && t.out == 0 {
			t.out = w.at()
		}
	}
}

func (w *world) trace(last int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.lines[max(0, len(w.lines)-last):], "\n")
}
