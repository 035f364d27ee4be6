package simulate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// host restarts leaderrun whenever it ends.
type host struct {
	w      *world
	name   string
	rng    *dice
	ttl    time.Duration
	offset time.Duration // of its clock, which began at another time

	mu      sync.Mutex
	now     *process
	started int
	suffer  [troubles]int
	faultAt time.Duration // of the last fault of this host, or of the store
	cutOff  time.Duration // the last time that one hit this host itself
	wall    time.Duration // by how much its wall clock was set
}

// process is one run of leaderrun. It may be stopped, or killed: after that it has no effect on
// the world.
type process struct {
	host   *host
	number int
	rng    *dice
	offset time.Duration
	set    campaign.Settings
	orders chan campaign.Received
	// clockSet says that the host's wall clock was set.
	clockSet chan struct{}
	hooks    *hooks

	// These are the world's, under its lock: when it was first ordered to stop, last asked the
	// store, and last asked it when it might be told that its lease is lost; and its last step.
	orderedAt, asked, losable time.Duration
	last                      elect.State

	mu     sync.Mutex
	frozen chan struct{}
	dead   bool
	killed chan struct{}
	tree   *tree
	links  []*link
	trap   func()
	// places is after how many more places where it can stand still halt is called.
	places int
	halt   func()
	still  time.Duration // when it or its guard last began or ceased to stand still

	guardStill bool
}

func (p *process) String() string { return fmt.Sprintf("%s/%d", p.host.name, p.number) }

func (h *host) live() {
	for !h.w.isOver() {
		p := h.start()
		ended := make(chan struct{})
		h.w.processes.Go(func() {
			defer close(ended)
			p.run()
		})
		select {
		case <-ended:
		case <-p.killed:
		}
		time.Sleep(h.w.upTo(h.rng, h.w.pause))
	}
}

func (h *host) start() *process {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started++
	p := &process{host: h, number: h.started, rng: h.w.rng(), offset: h.offset, orders: make(chan campaign.Received, 16), clockSet: make(chan struct{}, 1), killed: make(chan struct{})}
	killAfter := time.Duration(0)
	if p.rng.IntN(4) != 0 {
		killAfter = h.w.upTo(p.rng, h.ttl/2)
	}
	p.set = campaign.Settings{
		Settings: elect.Settings{
			Timing: elect.NewTiming(h.ttl, h.ttl/time.Duration(3+p.rng.IntN(3)), killAfter),
			Retry:  h.ttl / 6, Wait: candidate.Forever,
			KillAfter: killAfter, LostGrace: time.Second, StopSignal: 15,
			StopOnRenewError: p.rng.IntN(8) == 0, Rejoin: p.rng.IntN(2) == 0,
		},
		Now:       p.now,
		Request:   lease.Request{Key: key, TTL: h.ttl},
		NewHolder: h.w.newHolder,
		Signals:   p.orders,
		ClockSet:  p.clockSet,
	}
	if p.rng.IntN(4) == 0 {
		p.set.MaxRuntime = h.w.upTo(p.rng, 3*h.ttl)
	}
	p.set.Leftovers = []candidate.Leftovers{candidate.LeftoversStop, candidate.LeftoversStop, candidate.LeftoversWait, candidate.LeftoversLeave}[p.rng.IntN(4)]
	if p.rng.IntN(4) == 0 {
		p.set.Wait = 0
	}
	if h.w.choosy {
		p.set.Checked, p.set.Check = p.rng.IntN(2) == 0, p.check
	}
	if h.w.jobs != nil {
		h.w.jobs.begin(p)
	}
	p.set.Rejoin = p.set.Rejoin || h.w.hooked
	h.now = p
	return p
}

// check fails during one of four periods, each long enough for a leader to offer its lease. It
// does not fail once there are no more faults.
func (p *process) check(ctx context.Context, limit time.Duration) error {
	w := p.host.w
	if w.fit.Load() {
		return nil
	}
	select {
	case <-time.After(w.upTo(p.rng, min(limit, p.host.ttl/4))):
	case <-ctx.Done():
	}
	if int(w.at()/(3*p.host.ttl))%4 == p.number%4 {
		return errors.New("this host is not eligible")
	}
	return ctx.Err()
}

func (p *process) run() {
	p.hooks = newHooks(p)
	w := p.host.w
	store, err := w.store.client(p)
	if err != nil {
		w.fail("%v", err)
		return
	}
	w.note("%s begins, ttl %s", p, p.set.TTL)
	result := campaign.Run(w.t.Context(), p.set, ditheringStore{store, w, w.rng()}, p, p)
	if !p.isDead() {
		p.note("%s ends: %s %v", p, result.Outcome, result.Err)
		w.ended(p, result)
	}
	_ = store.Close()
	w.processes.Go(p.hooks.finish)
}

// ditheringStore delays the end of each call by a moment. Otherwise several goroutines of a
// hedged dial would see a deadline, say, in the same nanosecond.
type ditheringStore struct {
	client
	w   *world
	rng *dice
}

// of adds the holder to the context, for stores whose requests do not name it.
func of(ctx context.Context, h lease.Holder) context.Context {
	return context.WithValue(ctx, holderOf{}, h)
}

func (s ditheringStore) dither() { time.Sleep(s.w.upTo(s.rng, 5*time.Microsecond)) }

func (s ditheringStore) Acquire(ctx context.Context, r lease.Request) (lease.Lease, error) {
	defer s.dither()
	return s.client.Acquire(of(ctx, r.Holder), r)
}

func (s ditheringStore) Renew(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	defer s.dither()
	return s.client.Renew(of(ctx, l.Holder), l)
}

func (s ditheringStore) Release(ctx context.Context, l lease.Lease, r lease.Result) error {
	defer s.dither()
	return s.client.Release(of(ctx, l.Holder), l, r)
}

func (s ditheringStore) Wait(ctx context.Context, key string, atMost time.Duration) error {
	defer s.dither()
	return s.client.Wait(ctx, key, atMost)
}

func (s ditheringStore) Listen(ctx context.Context, key string) error {
	defer s.dither()
	return s.client.Listen(ctx, key)
}

// Observe receives the campaign's transitions.
func (p *process) Observe(t campaign.Transition) {
	p.note("%s: %s", p, elect.Line(t.From, t.Event, t.To, t.Actions))
	p.host.w.observed(p, t)
	p.hooks.observe(t)
}

// note logs what the process does, as long as it lives.
func (p *process) note(format string, args ...any) {
	if !p.isDead() {
		p.host.w.note(format, args...)
	}
}

func (p *process) now() time.Duration {
	p.awake()
	now := p.host.w.at() + p.offset
	// To read the clock takes time. Otherwise several goroutines would have deadlines in the
	// same nanosecond, and their order would be left to chance.
	p.dither()
	return now
}

func (p *process) dither() { time.Sleep(p.host.w.upTo(p.rng, 5*time.Microsecond)) }

// awake returns once the process runs.
func (p *process) awake() {
	for {
		p.mu.Lock()
		frozen, halt := p.frozen, p.halt
		if p.places--; p.places != 0 {
			halt = nil
		}
		p.mu.Unlock()
		switch {
		case halt != nil:
			halt()
		case frozen != nil:
			<-frozen
		default:
			return
		}
	}
}

// haltAt has something happen at one of the next places where the process can stand still:
// whenever it looks at the clock, and before and after it sends or hears anything.
func (p *process) haltAt(places int, f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.places, p.halt = places, f
}

// guardStands notes that the guard begins to stand still, or ceases to.
func (p *process) guardStands(still bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.guardStill, p.still = still, p.host.w.at()
}

// stoodStillSince reports whether the process or its guard has stood still since.
func (p *process) stoodStillSince(at time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.frozen != nil || p.still >= at || p.guardStill
}

// stands returns once the process does not stand still. Unlike awake it is no place where a
// fault can come.
func (p *process) stands() {
	for {
		p.mu.Lock()
		frozen := p.frozen
		p.mu.Unlock()
		if frozen == nil {
			return
		}
		<-frozen
	}
}

func (p *process) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil && !p.dead {
		p.frozen, p.still = make(chan struct{}), p.host.w.at()
	}
}

func (p *process) thaw() {
	p.mu.Lock()
	if p.frozen != nil {
		p.host.hit()
		close(p.frozen)
		p.frozen, p.still = nil, p.host.w.at()
	}
	t := p.tree
	p.mu.Unlock()
	if t != nil {
		t.inherit()
	}
}

func (p *process) isFrozen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.frozen != nil
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

func (p *process) held() *tree {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tree
}

// hold makes t the tree of this process, unless the process is dead.
func (p *process) hold(t *tree) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return false
	}
	p.tree = t
	return true
}

func (p *process) adopt(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return false
	}
	p.links = append(p.links, l)
	return true
}

// kill is SIGKILL for the elector. Its requests still arrive. Its goroutines end, which no
// other process notices.
func (p *process) kill() {
	t := p.held()
	if p.isDead() || t != nil && !t.guarded() { // both dead: no process could kill the tree, see docs/guard.md
		return
	}
	p.host.w.note("%s: the elector is killed", p)
	p.mu.Lock()
	p.dead = true
	links := p.links
	p.mu.Unlock()
	for _, l := range links {
		p.dither()
		_ = l.near.Close()
	}
	if t != nil {
		t.orphan()
	}
	p.thaw()
	p.order()
	close(p.killed)
}

// order tells leaderrun twice to stop, so that it does not wait for anything.
func (p *process) order() {
	for _, signal := range []int{15, 2} {
		p.dither()
		p.orders <- campaign.Received{Signal: signal, Order: true}
	}
}

// signal is one that reaches leaderrun. A terminal's reaches a running command, too.
func (p *process) signal(r campaign.Received) {
	const room = 8 // for the orders at the end
	if p.isDead() || len(p.orders) > room {
		return
	}
	w, t := p.host.w, p.held()
	w.note("%s: gets %+v", p, r)
	if t != nil && r.FromTerminal {
		t.interrupt(r.Signal)
	}
	p.orders <- r
	w.faulty()
	switch {
	case r.FromTerminal: // the command may ignore it
	case r.Order:
		w.ordered(p, t)
	case t != nil && t.runsNow():
		w.expectsPassOn(p, t, r.Signal)
	}
}

// setTrap has something happen when the store has answered the next request, and
// the answer is on its way.
func (p *process) setTrap(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap = f
}

func (p *process) spring() {
	p.mu.Lock()
	f := p.trap
	p.trap = nil
	p.mu.Unlock()
	if f != nil {
		f()
	}
}

func (h *host) current() *process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *host) suffers(t trouble) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.suffer[t] > 0 {
		h.faultAt, h.cutOff = h.w.at(), h.w.at()
	}
	return h.suffer[t] > 0
}

func (h *host) bring(t trouble, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.suffer[t] += n
	h.faultAt, h.cutOff = h.w.at(), h.w.at()
}

// hit records a fault of this host, missed a fault of the store.
func (h *host) hit() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faultAt, h.cutOff = h.w.at(), h.w.at()
}

func (h *host) missed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faultAt = h.w.at()
}

// wallStep is by how much its wall clock was set.
func (h *host) wallStep() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.wall
}

// shows is what its wall clock shows, in ms.
func (h *host) shows() int64 { return h.w.start.Add(h.w.at() + h.wallStep()).UnixMilli() }

// reachedSince reports whether nothing has come between this host and the store
// since, but what happened to the store itself.
func (h *host) reachedSince(at time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.inTrouble() && h.cutOff < at
}

// withoutFaultSince reports whether the host has had no fault since then.
func (h *host) withoutFaultSince(at time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.inTrouble() && h.faultAt < at
}

// inTrouble is called with h.mu held.
func (h *host) inTrouble() bool {
	for _, n := range h.suffer {
		if n > 0 {
			return true
		}
	}
	return false
}

// slowness draws the delay of a slow network: mostly about the time of an attempt, sometimes
// much more.
func (h *host) slowness(rng *dice) time.Duration {
	if rng.IntN(4) == 0 {
		return 2 * h.ttl
	}
	return h.ttl / 12
}
