package simulate

import (
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
)

// kind is what may come upon the world.
type kind int

const (
	electorStops kind = iota
	electorDies
	guardStops
	guardDies
	storeRestarts
	storeForgets // where it is forgetful
	storeClockSet
	networkWorsens
	networkFails
	hostClockSet
	stopOrdered
	signalSent
	handedOver
	revoked
	paused
	resumed
	kinds
)

// weights say how often the kinds come, compared with each other.
var weights = [kinds]int{
	electorStops: 3, electorDies: 2, guardStops: 1, guardDies: 1,
	storeRestarts: 1, storeForgets: 3, storeClockSet: 3, networkWorsens: 3, networkFails: 8,
	hostClockSet: 1, stopOrdered: 3, signalSent: 1,
	handedOver: 2, revoked: 2, paused: 2, resumed: 1,
}

// swarm draws the kinds that a schedule has. With half of them each comes more often, and
// so do rare combinations (Groce et al., Swarm testing, ISSTA 2012).
func (w *world) swarm(rng *dice, without ...kind) {
	w.mix, w.troubles = nil, nil
	for k, weight := range weights {
		if rng.IntN(2) == 0 && !slices.Contains(without, kind(k)) {
			w.mix = append(w.mix, slices.Repeat([]kind{kind(k)}, weight)...)
		}
	}
	for t := range troubles {
		if rng.IntN(2) == 0 {
			w.troubles = append(w.troubles, t)
		}
	}
	if w.troubles == nil {
		w.troubles = []trouble{blackHole}
	}
	if w.mix == nil {
		w.mix = []kind{networkFails}
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
	saves := w.forgetful && rng.IntN(3) == 0
	does := w.draw(rng, h, saves)
	return func() {
		if saves {
			w.save()
		}
		does()
	}
}

func (w *world) draw(rng *dice, h *host, saves bool) (act func()) {
	p := h.current()
	tree := p.held()
	span := h.ttl/20 + w.upTo(rng, h.ttl*5/2)
	switch w.mix[rng.IntN(len(w.mix))] {
	case storeClockSet:
		step, rate := anyStep(rng, h.ttl), anyRate(rng)
		return func() { w.stepClock(step, rate) }
	case hostClockSet:
		step := anyStep(rng, h.ttl)
		return func() { w.setHostClock(p, step) }
	case electorStops:
		span = h.ttl/2 + w.upTo(rng, h.ttl*5/2)
		return w.moment(rng, p, func(p *process) { w.during("stops the elector", p, span, p.freeze, p.thaw) })
	case electorDies:
		return w.moment(rng, p, func(p *process) {
			go func() {
				p.kill()
				w.faulty()
			}()
		})
	case guardStops:
		if tree == nil {
			return func() {}
		}
		return func() { w.during("stops the guard", p, span, tree.stop, tree.resume) }
	case guardDies:
		return func() {
			if tree != nil && !p.isDead() {
				tree.killGuard()
				w.faulty()
			}
		}
	case storeRestarts:
		away := w.away(rng, span)
		return func() { w.restart(away, nil) }
	case storeForgets:
		return w.lose(rng, span, saves)
	case networkWorsens:
		return func() {
			w.during("slow and then a black hole", p, span, func() { h.bring(slow, 1) }, func() {
				h.bring(slow, -1)
				w.during("black hole", p, h.ttl+w.upTo(rng, h.ttl), func() { h.bring(blackHole, 1) }, func() { h.bring(blackHole, -1) })
			})
		}
	case stopOrdered:
		return w.moment(rng, p, w.order(rng, h.ttl))
	case signalSent: // HUP and QUIT end a standby
		const hup, quit, usr1, tstp = 1, 3, 10, 20
		s := campaign.Received{Signal: []int{hup, quit, usr1, tstp}[rng.IntN(4)], FromTerminal: rng.IntN(4) == 0}
		return func() { p.signal(s) }
	case handedOver:
		return func() { w.faults.Go(w.operator.handOver) }
	case revoked:
		atOnce := rng.IntN(4) == 0
		return func() { w.faults.Go(func() { w.operator.revoke(atOnce) }) }
	case paused:
		return func() { w.faults.Go(func() { w.operator.pause(span) }) }
	case resumed:
		return func() { w.faults.Go(func() { _ = w.operator.resume() }) }
	default: // networkFails
		hosts := []*host{h}
		if rng.IntN(4) == 0 {
			hosts = w.hosts
		}
		what := w.troubles[rng.IntN(len(w.troubles))]
		return func() {
			for _, h := range hosts {
				w.during(what.String(), h.current(), span, func() { h.bring(what, 1) }, func() { h.bring(what, -1) })
			}
		}
	}
}

func anyStep(rng *dice, ttl time.Duration) time.Duration {
	return []time.Duration{time.Hour, time.Minute, ttl / 2, 0, -ttl / 2, -time.Minute, -time.Hour}[rng.IntN(7)]
}

// moment draws when something happens to a process: at once, at one of the next places where
// it can stand still, or while the next answer is on its way, or the next grant, whoever
// gets that.
func (w *world) moment(rng *dice, p *process, what func(*process)) (act func()) {
	switch places := 1 + rng.IntN(60); rng.IntN(4) {
	case 0:
		return func() { p.haltAt(places, func() { what(p) }) }
	case 1:
		return func() { p.setTrap(func() { what(p) }) }
	case 2:
		return func() { w.setGrantTrap(what) }
	}
	return func() { what(p) }
}

func (w *world) setGrantTrap(f func(*process)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.grantTrap = f
}

// order orders leaderrun to stop, perhaps twice.
func (w *world) order(rng *dice, ttl time.Duration) (act func(*process)) {
	first := campaign.Received{Signal: 15, Order: true}
	second := campaign.Received{Signal: 2, Order: true, FromTerminal: rng.IntN(3) == 0}
	if rng.IntN(2) == 0 {
		first, second = second, first
	}
	twice, pause := rng.IntN(3) == 0, w.upTo(rng, ttl/2)
	return func(p *process) {
		p.signal(first)
		if twice {
			w.faults.Go(func() {
				time.Sleep(pause)
				p.signal(second)
			})
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
	w.restarted = w.at()
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
