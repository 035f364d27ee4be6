package simulate

import (
	"flag"
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

// TestMain lets the heap grow: garbage collection took half of the time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	m.Run()
}

// Three candidates, with the faults of a seed. world.judge, born and died check what must hold
// meanwhile; run checks that somebody leads again afterwards.
func TestSimulations(t *testing.T) {
	checkSchedules(t, *simulations, newWorld)
}

// The same with a store of rows, by the rules of rules.
func TestSimulationsOfRows(t *testing.T) {
	checkSchedules(t, max(1, *simulations/2), func(t *testing.T, seed uint64) *world { return newWorldWith(t, seed, newTable) })
}

// The same with members whose clocks differ, as those of etcd.
func TestSimulationsOfMembers(t *testing.T) {
	checkSchedules(t, max(1, *simulations/3), func(t *testing.T, seed uint64) *world { return newWorldWith(t, seed, newMembers) })
}

// The same with a store that calls and wakes nobody, as object storage.
func TestSimulationsOfABucket(t *testing.T) {
	checkSchedules(t, max(1, *simulations/3), func(t *testing.T, seed uint64) *world { return newWorldWith(t, seed, newBucket) })
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
	c.hooks += d.hooks
	c.leftOut += d.leftOut
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
	time.Sleep(time.Hour) // until the timers of ended commands, and delayed requests, are over
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
	w.setGrantTrap(nil)
	for _, h := range w.hosts {
		h.current().setTrap(nil)
		h.current().haltAt(0, nil)
	}
	w.fit.Store(true)
	w.faults.Wait()
	if w.pausedUntil > 0 {
		for w.operator.resume() != nil {
			time.Sleep(time.Second)
		}
	}
	w.awaitLeader(longest)
	w.end()
}

// awaitLeader waits for a leader, who must come within TTL + retry + margin once there are no
// more faults. An attempt may have begun before the last fault ended, and a process is
// restarted within a second.
func (w *world) awaitLeader(ttl time.Duration) {
	if s := w.look(); s.value == foreign { // no candidate removes that, and after the clock was set back it lasts longer
		time.Sleep(s.until - w.at())
		w.faulty()
	}
	limit := ttl + ttl/6 + ttl/15 + ttl/50 + w.pause
	if w.unwatched > 0 { // a candidate that did not see the last renewal watches for a TTL, or waits for all clocks
		limit += min(ttl, w.unwatched)
	}
	if w.silent { // a key settles for two fifths of a TTL, from an attempt on
		limit += ttl*2/5 + ttl/6
	}
	if w.jobs != nil { // the tick may be served or given up, or there is a minimum hold
		limit += w.jobs.period + w.jobs.minHold
	}
	if w.pausedUntil > 0 { // who misses its end asks again after a TTL and its jitter
		limit += ttl / 4
	}
	if w.choosy { // a check and --retry come on top
		limit += ttl
	}
	if w.forgetful { // the key settles again for a candidate that knows of a later grant
		limit += ttl
	}
	calm := limit      // always waited for; the time for a clock that was set back only until somebody leads
	if w.setBack > 0 { // an attempt makes the lease of a dead holder as short as before
		limit += ttl + w.unwatched
		if w.evicted || w.takenAt > 0 { // but if its length was lost, or it is another program's, none can
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
