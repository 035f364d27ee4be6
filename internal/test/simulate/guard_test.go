package simulate

import (
	"errors"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// tree is a command with its descendants, and its guard. The guard may be stopped or killed. A
// stopped guard reads its orders later, but at kill-by the kernel continues it, and the
// elector.
type tree struct {
	p     *process
	lease lease.Lease

	mu       sync.Mutex
	startBy  time.Duration // on the world's clock, as the rest
	killBy   time.Duration // as far as the guard knows
	orders   []func()      // that a stopped guard has not read
	startsAt time.Duration // the guard reads orders from then on
	slow     bool          // that is late
	begun    bool
	live     bool
	over     bool
	stopped  bool          // the guard
	seen     time.Duration // when the store last had the lease
	guardErr error
	ended    bool // the command has ended, but not its descendants
	exit     candidate.Exit
	endAt    time.Duration
	end      *time.Timer
	alarm    *time.Timer
	rng      *dice
	runs     time.Duration // how long, without a signal
	leaves   bool          // its descendants outlive it
	rest     time.Duration // by so much, if nobody stops them
	stubborn bool          // it ignores signals
	obey     time.Duration // to end after a signal
	dying    time.Duration // to end after SIGKILL
	out      time.Duration // when a fault or an operator took the lease out of the store
	cut      bool          // the command did not end by itself
	atKillBy bool          // the guard killed it then
	signals  map[int]time.Duration

	// These are the world's, under its lock.
	dues       []due
	born, dead time.Duration
	events     chan elect.Event
}

var errGuardDied = errors.New("the guard process died: killed")

// Start, Extend, Signal, Kill and Leave are what a campaign does with a command.
func (p *process) Start(startBy, killBy time.Duration, l lease.Lease, report func(elect.Event)) {
	p.awake()
	t := &tree{p: p, lease: l, startBy: startBy - p.offset, killBy: killBy - p.offset, events: make(chan elect.Event, 8), signals: map[int]time.Duration{}}
	t.drawCommand()
	p.host.w.starting(t)
	go func() {
		for e := range t.events {
			report(e)
		}
	}()
	if !p.hold(t) {
		t.fail(errors.New("dead"))
		return
	}
	t.order(t.begin)
	time.AfterFunc(t.startsAt-p.host.w.at(), t.read)
}

// drawCommand draws what the command will do.
func (t *tree) drawCommand() {
	w, set := t.p.host.w, t.p.set
	t.rng = w.rng()
	t.exit.Code = t.rng.IntN(2)
	if t.runs = time.Hour; t.rng.IntN(3) != 0 {
		t.runs = w.upTo(t.rng, 4*set.TTL)
	}
	delay := 5 * time.Millisecond
	if t.slow = t.rng.IntN(4) == 0 && !w.fit.Load(); t.slow {
		delay = set.TTL
	}
	t.startsAt = w.at() + w.upTo(t.rng, delay)
	t.leaves = t.rng.IntN(4) == 0
	if t.rest = time.Hour; t.rng.IntN(2) == 0 {
		t.rest = w.upTo(t.rng, 2*set.TTL)
	}
	t.stubborn = t.rng.IntN(3) == 0
	t.obey = w.upTo(t.rng, set.KillAfter+time.Millisecond)
	if t.dying = set.KillMargin * 95 / 100; t.rng.IntN(3) != 0 {
		t.dying = w.upTo(t.rng, t.dying)
	}
}

func (p *process) Extend(killBy time.Duration) {
	p.command(func(t *tree) {
		t.killBy = killBy - p.offset
		t.setAlarm()
	})
}

func (p *process) Signal(signal int) {
	p.command(func(t *tree) {
		p.host.w.note("%s: signal %d", p, signal)
		t.signals[signal] = p.host.w.at()
		switch {
		case t.stubborn || signal != 15 && signal != 2:
		case t.leaves && !t.ended: // the rest gets it later
			t.cut = true
			time.AfterFunc(t.obey/2, func() {
				t.order(func() { t.endCommand(candidate.Exit{Signal: signal}) })
			})
		default:
			t.die(t.obey, candidate.Exit{Signal: signal})
		}
	})
}

func (p *process) SignalRest(signal int) { p.Signal(signal) }

// killPatience is the runner's: how long a guard has to answer an order to kill.
const killPatience = 100 * time.Millisecond

// Kill wakes a guard that was stopped, and kills one that does not answer.
func (p *process) Kill() {
	p.command((*tree).kill)
	if t := p.held(); t != nil && !p.isDead() {
		t.resume()
		time.AfterFunc(killPatience, func() {
			if !t.answers() && !p.isFrozen() && !p.isDead() {
				t.killGuard()
			}
		})
	}
}

// Leave ends the guard.
func (p *process) Leave() {
	p.awake()
	t := p.held()
	if t == nil || p.isDead() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.letGo() {
		p.host.w.left(t)
		close(t.events)
	}
}

// letGo ends the guard's work for the tree, and reports whether that is new.
func (t *tree) letGo() bool {
	if t.over {
		return false
	}
	t.over, t.live = true, false
	t.alarm.Stop()
	return true
}

// command gives the guard an order.
func (p *process) command(what func(*tree)) {
	p.awake()
	if t := p.held(); t != nil && !p.isDead() {
		t.order(func() { what(t) })
	}
}

// order queues an order, which the guard reads once it runs.
func (t *tree) order(what func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.orders = append(t.orders, what)
	t.drain()
}

func (t *tree) read() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drain()
}

// drain carries out the queued orders. It, and all orders, are called with mu held.
func (t *tree) drain() {
	if t.stopped || t.p.host.w.at() < t.startsAt {
		return
	}
	orders := t.orders
	t.orders = nil
	for _, what := range orders {
		if !t.over && t.guardErr == nil {
			what()
		}
	}
}

func (t *tree) begin() {
	w := t.p.host.w
	t.begun = true
	if t.slow {
		w.faulty()
	}
	if t.p.isDead() || w.at() >= t.startBy {
		t.over = true
		t.finish(elect.Event{Kind: elect.StartFailed, Err: errors.New("too late")})
		return
	}
	t.live = true
	w.born(t)
	t.setAlarm()
	t.events <- elect.Event{Kind: elect.Started}
	if t.leaves {
		time.AfterFunc(t.runs, func() { t.order(func() { t.endCommand(t.exit) }) })
	} else {
		t.die(t.runs, t.exit)
	}
}

// endCommand leaves descendants behind.
func (t *tree) endCommand(exit candidate.Exit) {
	if t.ended || t.endAt != 0 {
		return
	}
	t.ended, t.exit = true, exit
	t.events <- elect.Event{Kind: elect.CommandEnded, Exit: t.exit, Left: "somebody"}
	t.die(t.rest, t.exit)
}

// interrupt is a terminal's signal, which the command may take for its end.
func (t *tree) interrupt(signal int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if signal == 2 && !t.stubborn && !t.cut {
		t.die(t.obey, candidate.Exit{Signal: signal})
		t.cut = false
	}
}

// answers reports whether the guard has come to the orders after the start.
func (t *tree) answers() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.begun
}

// runsNow reports whether the tree lives.
func (t *tree) runsNow() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live
}

// lastSignal is when the command last got this signal.
func (t *tree) lastSignal(signal int) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.signals[signal]
}

func (t *tree) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	t.finish(elect.Event{Kind: elect.StartFailed, Err: err})
}

func (t *tree) finish(e elect.Event) {
	t.events <- e
	close(t.events)
}

func (t *tree) setAlarm() {
	w := t.p.host.w
	if t.alarm != nil {
		t.alarm.Stop()
	}
	t.alarm = time.AfterFunc(t.killBy-w.at()+w.upTo(t.rng, 50*time.Microsecond), t.wake)
}

// wake is the alarm of guard and elector, which continues both.
func (t *tree) wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		t.p.host.hit()
		t.p.guardStands(false)
	}
	t.stopped = false
	t.drain()
	if !t.over && t.p.host.w.at() >= t.killBy {
		t.atKillBy = t.guardErr == nil
		t.kill()
	}
	go t.p.thaw()
}

// kill kills the tree. That takes time, which the kill margin covers.
func (t *tree) kill() { t.die(t.dying, candidate.Exit{Signal: 9}) }

// die ends the tree after a time, unless it ends earlier anyway.
func (t *tree) die(after time.Duration, exit candidate.Exit) {
	at := t.p.host.w.at() + after
	if !t.live || t.endAt != 0 && t.endAt <= at {
		return
	}
	if t.end != nil {
		t.end.Stop()
	}
	if !t.ended && exit != t.exit {
		t.exit, t.cut = exit, true
	}
	t.endAt, t.end = at, time.AfterFunc(after, t.allDead)
}

func (t *tree) allDead() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.letGo() {
		t.p.host.w.died(t)
		t.finish(elect.Event{Kind: elect.TreeGone, Exit: t.exit, Expired: t.atKillBy, Err: t.guardErr})
	}
}

// orphan is called when the elector dies: the guard sees the end of the pipe.
func (t *tree) orphan() {
	t.order(func() {
		if t.begun {
			t.kill()
		}
	})
}

// stop and resume are SIGSTOP and SIGCONT for the guard.
func (t *tree) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.p.guardStands(true)
	t.stopped = true
}

func (t *tree) resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		t.p.guardStands(false)
		t.stopped = false
		t.drain()
	}
}

// killGuard kills the guard. The elector kills the tree once it runs, at kill-by at the latest.
func (t *tree) killGuard() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.guardErr != nil || t.over {
		return
	}
	t.p.host.w.note("%s: the guard is killed", t.p)
	if t.stopped {
		t.p.guardStands(false)
	}
	t.guardErr, t.stopped, t.orders = errGuardDied, false, nil
	switch {
	case !t.begun: // there is no tree
		t.over = true
		t.finish(elect.Event{Kind: elect.TreeGone, Err: t.guardErr})
	case !t.p.isFrozen():
		t.kill()
	}
}

// inherit lets the elector kill the tree of a dead guard.
func (t *tree) inherit() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.guardErr != nil && !t.over {
		t.kill()
	}
}

// guarded reports whether the tree has a guard or has ended.
func (t *tree) guarded() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over || t.guardErr == nil
}
