package simulate

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var (
	simulations = flag.Uint64("simulations", schedules, "how many schedules are simulated")
	first       = flag.Uint64("first", 0, "the seed of the first one")
	events      = flag.Bool("events", false, "show everything that happens")
	dropped     = flag.String("drop", "", "leave out these faults of each schedule, by number: 0,3,7")
)

// TestMain lets the heap grow: half of the time was spent on collecting it.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	code := m.Run()
	if *showRows {
		if err := taken.show(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// Three candidates, and whatever a seed brings upon them. What must hold then is
// in world.judge, born and died; that somebody leads again afterwards is in
// run.
func TestSimulations(t *testing.T) {
	checkSchedules(t, *simulations, newWorld)
}

// The same on a store that keeps rows, which follow the rules of leasestate.
func TestSimulationsOfRows(t *testing.T) {
	checkSchedules(t, max(1, *simulations/2), func(t *testing.T, seed uint64) *world { return newWorldWith(t, seed, newTable) })
}

// The same on members whose clocks are apart, as those of etcd.
func TestSimulationsOfMembers(t *testing.T) {
	checkSchedules(t, max(1, *simulations/3), func(t *testing.T, seed uint64) *world { return newWorldWith(t, seed, newMembers) })
}

func checkSchedules(t *testing.T, n uint64, build func(*testing.T, uint64) *world) {
	if testing.Short() {
		n = min(n, 8)
	}
	oneProcessor(t)
	var drop []int
	for number := range strings.FieldsFuncSeq(*dropped, func(r rune) bool { return r == ',' }) {
		i, err := strconv.Atoi(number)
		if err != nil {
			t.Fatalf("-drop: %v", err)
		}
		drop = append(drop, i)
	}
	var all count
	played := seeds(t, n)
	for _, seed := range played {
		w := simulate(t, seed, build, drop...)
		if *events {
			t.Logf("seed %d\n%s", seed, w.trace(len(w.lines)))
		}
		if w.failure != "" {
			w, drop = shrink(t, w, build, drop)
			t.Fatalf("seed %d: %s\n%d faults do, without %d others; replay, without -race: go test ./internal/test/simulate -run '^%s$' -first %d -simulations 1 -drop '%s' -events -v\nthe end of the trace:\n%s",
				seed, w.failure, w.count.faults, len(drop), t.Name(), seed, join(drop), w.trace(120))
		}
		all.add(w.count)
	}
	t.Logf("%d schedules: %+v", len(played), all)
}

// oneProcessor makes goroutines run in the same order each time.
func oneProcessor(t *testing.T) {
	before := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

func simulate(t *testing.T, seed uint64, build func(*testing.T, uint64) *world, drop ...int) (w *world) {
	synctest.Test(t, func(t *testing.T) {
		w = build(t, seed)
		w.drop = drop
		w.run()
	})
	return w
}

func (c *count) add(d count) {
	c.runs += d.runs
	c.grants += d.grants
	c.faults += d.faults
	c.overlaps += d.overlaps
	c.requests += d.requests
}

func (w *world) begin() {
	for _, h := range w.hosts {
		w.living.Go(func() {
			time.Sleep(w.upTo(h.rng, time.Second))
			h.live()
		})
	}
	time.Sleep(time.Second) // all have begun
}

func (w *world) end() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	for _, h := range w.hosts {
		h.current().order()
	}
	w.living.Wait()
	w.processes.Wait()
	w.store.close()
	time.Sleep(time.Hour) // timers of commands that have ended, and what is on its way
}

func (w *world) run() {
	rng := w.rng()
	longest := w.longestTTL()
	w.begin()
	for end := w.at() + time.Duration(w.rounds)*9*longest; w.at() < end; {
		time.Sleep(w.upTo(rng, longest))
		if act := w.fault(rng); !slices.Contains(w.drop, w.drawn) {
			w.note("fault %d", w.drawn)
			w.count.faults++
			act()
		}
		w.drawn++
	}
	for _, h := range w.hosts {
		h.current().setTrap(nil)
	}
	w.fit.Store(true)
	w.faults.Wait()
	w.awaitLeader(longest)
	w.end()
}

// awaitLeader waits for what I9 promises once nothing fails any more: a leader
// within TTL + retry + margin. An attempt may have begun before the last fault
// ended, and a process is started again within a second.
func (w *world) awaitLeader(ttl time.Duration) {
	if s := w.look(); s.value == foreign { // no candidate touches that, and a clock that was set back prolongs it
		time.Sleep(s.until - w.at())
		w.faulty()
	}
	limit := ttl + ttl/6 + ttl/15 + ttl/50 + w.pause
	if w.unwatched > 0 { // who did not see the last renewal watches for a TTL, or waits for all clocks
		limit += min(ttl, w.unwatched)
	}
	if w.jobs != nil { // a tick that is served or given up, or a minimum hold
		limit += w.jobs.period + w.jobs.minHold
	}
	if w.choosy { // a check, --yield and --retry come on top
		limit += ttl
	}
	if w.forgetful { // a candidate that knows of a later grant begins to settle anew
		limit += ttl
	}
	calm := limit      // passes in any case, what a clock that was set back adds only until somebody leads
	if w.setBack > 0 { // only who asks makes the lease of a dead holder as short as it was
		limit += ttl + w.unwatched
		if w.evicted || w.taken > 0 { // and nobody knows how short that is, or it is another program's
			limit += w.setBack
		}
	}
	for waits := true; waits; {
		w.mu.Lock()
		last, led := w.lastFault, len(w.live) > 0 || w.lastLive >= w.lastFault
		w.mu.Unlock()
		switch now := w.at(); {
		case now < last+calm:
			time.Sleep(last + calm - now)
		case now < last+limit && !led:
			time.Sleep(min(ttl, last+limit-now))
		default:
			waits = false
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.live) == 0 && w.lastLive < w.lastFault {
		w.failLocked("I9: nobody has led since the last fault at %s", w.lastFault)
	}
}

// fault draws what brings one thing upon the world, most often upon the host that leads.
func (w *world) fault(rng *dice) (act func()) {
	h := w.hosts[rng.IntN(len(w.hosts))]
	w.mu.Lock()
	for _, t := range w.live {
		if rng.IntN(2) == 0 {
			h = t.p.host
		}
	}
	w.mu.Unlock()
	p := h.current()
	tree := p.held()
	span := h.ttl/20 + w.upTo(rng, h.ttl*5/2)
	saves := w.forgetful && rng.IntN(3) == 0
	does := w.draw(rng, h, p, tree, span, saves)
	return func() {
		if saves {
			w.save()
		}
		does()
	}
}

func (w *world) draw(rng *dice, h *host, p *process, tree *tree, span time.Duration, saves bool) (act func()) {
	switch kind := rng.IntN(27); {
	case kind >= 24 && w.jobs == nil:
		steps := []time.Duration{time.Hour, time.Minute, h.ttl / 2, 0, -h.ttl / 2, -time.Minute, -time.Hour}
		step, rate := steps[rng.IntN(len(steps))], anyRate(rng)
		return func() { w.stepClock(step, rate) }
	case kind < 2:
		span = h.ttl/2 + w.upTo(rng, h.ttl*5/2)
		if rng.IntN(2) == 0 {
			return func() { w.during("stops the elector", p, span, p.freeze, p.thaw) }
		}
		return func() {
			p.setTrap(func() { w.during("stops the elector before an answer", p, span, p.freeze, p.thaw) })
		}
	case kind < 4:
		if rng.IntN(2) == 0 {
			return func() {
				p.kill()
				w.faulty()
			}
		}
		return func() {
			p.setTrap(func() {
				go p.kill()
				w.faulty()
			})
		}
	case kind < 5 && tree != nil:
		span := w.upTo(rng, 2*h.ttl)
		return func() { w.during("stops the guard", p, span, tree.stop, tree.resume) }
	case kind < 6 && tree != nil:
		return func() {
			if !p.isDead() {
				tree.killGuard()
				w.faulty()
			}
		}
	case kind < 7:
		away := w.away(rng, span)
		return func() { w.restart(away, nil) }
	case kind < 10 && w.forgetful:
		return w.lose(rng, span, saves)
	case kind < 13: // a network that gets worse
		return func() {
			w.during("slow and then a black hole", p, span, func() { h.bring(slow, 1) }, func() {
				h.bring(slow, -1)
				w.during("black hole", p, h.ttl+w.upTo(rng, h.ttl), func() { h.bring(blackHole, 1) }, func() { h.bring(blackHole, -1) })
			})
		}
	default:
		hosts := []*host{h}
		if rng.IntN(4) == 0 {
			hosts = w.hosts
		}
		what := trouble(rng.IntN(int(troubles)))
		return func() {
			for _, h := range hosts {
				w.during(what.String(), h.current(), span, func() { h.bring(what, 1) }, func() { h.bring(what, -1) })
			}
		}
	}
}

// during lets something be the case for a while.
func (w *world) during(what string, p *process, span time.Duration, begin, end func()) {
	w.note("%s: %s for %s", p, what, span)
	p.host.hit()
	begin()
	w.faults.Go(func() {
		time.Sleep(span)
		end()
		p.host.hit()
		w.faulty()
	})
}

// away is how long a server is gone that restarts: often it is a moment.
func (w *world) away(rng *dice, span time.Duration) time.Duration {
	if rng.IntN(2) == 0 {
		return w.upTo(rng, 200*time.Millisecond)
	}
	return span
}

// restart ends the server and all connections to it, for a while.
func (w *world) restart(away time.Duration, lose func()) {
	w.note("the store restarts, away for %s", away)
	w.mu.Lock()
	w.down++
	w.mu.Unlock()
	w.server.Add(1)
	for _, h := range w.hosts {
		h.missed()
		p := h.current()
		p.mu.Lock()
		links := p.links
		p.links = nil
		p.mu.Unlock()
		for _, l := range links {
			go func() {
				time.Sleep(w.latency(l.rng))
				l.close()
			}()
		}
	}
	if lose != nil {
		w.forget(func() string { lose(); return "it restarts with less" })
	}
	w.faults.Go(func() {
		time.Sleep(away)
		w.mu.Lock()
		w.down--
		w.mu.Unlock()
		for _, h := range w.hosts {
			h.missed()
		}
		w.faulty()
	})
}

// lose draws how the store loses what it acknowledged.
func (w *world) lose(rng *dice, span time.Duration, saves bool) (act func()) {
	switch way := rng.IntN(7); way {
	default:
		return func() { w.forget(func() string { return w.store.evict(way, span/3) }) }
	case 3:
		away := w.away(rng, span)
		return func() { w.restart(away, w.store.clear) }
	case 5, 6:
		w.mu.Lock()
		saved := w.saved || saves
		w.mu.Unlock()
		if !saved {
			return func() {}
		}
		away := w.away(rng, span)
		return func() { w.restart(away, w.store.restore) }
	}
}
