package simulate

import (
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/run"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// hookLimit is what docs/settings.md promises: one hook, and all that are left at the end of a
// run, have so long. hookKill is how long it takes at most to kill one.
const hookLimit, hookKill = 10 * time.Second, time.Second

// hooks are those of one process. All but the first three fields are the judge's, under the
// world's lock.
type hooks struct {
	*run.Hooks
	p   *process
	rng *dice // its own, so that a seed brings the same with other hooks

	promised []promise
	next     int            // the first promised hook that has neither begun nor been passed over
	passed   map[string]int // by event: hooks passed over, less the warnings that say so
	failed   map[string]int // the same for those that failed
	running  bool
	idle     time.Duration // since then no hook runs
	stuck    time.Duration // until then the exec of one hangs
	starts   bool          // the start of a command was ordered
}

// promise is a hook that docs/settings.md promises. A hook of a skipped run may name any leader.
type promise struct {
	event, holder, outcome string
	at                     time.Duration
}

// Every process leads again after a loss, the key is revoked all the time, and the exec of
// hooks hangs, so that more events come than can wait.
func TestHooks(t *testing.T) {
	checkSchedules(t, max(1, *simulations/6), func(t *testing.T, seed uint64) *world {
		w := newWorldWith(t, seed, newTable)
		w.hooked, w.rounds = true, 4
		w.mix = []kind{revoked, revoked, revoked, electorStops, stopOrdered}
		return w
	})
}

func newHooks(p *process) *hooks {
	name := fnv.New64a()
	_, _ = name.Write([]byte(p.String())) // a hash never fails
	h := &hooks{p: p, rng: &dice{r: rand.New(rand.NewPCG(p.host.w.seed, name.Sum64()))}, passed: map[string]int{}, failed: map[string]int{}}
	program := []string{os.Args[0]}
	c := settings.Config{Key: key, OnAcquire: program, OnLost: program, OnEnd: program, OnSkip: program}
	h.Hooks = run.NewHooks(c, slog.New(h), h.run, func(r elect.State, _ settings.Config) int { return r.Exit.Status() })
	return h
}

// observe passes a step to the hooks. No time may pass meanwhile: the decision waits.
func (h *hooks) observe(t campaign.Transition) {
	if h.p.isDead() {
		return
	}
	w := h.p.host.w
	w.mu.Lock()
	h.promise(t)
	w.mu.Unlock()
	before := w.at()
	h.Observe(t)
	if took := w.at() - before; took > 0 {
		w.fail("%s: a hook delays a decision by %s", h.p, took)
	}
}

// promise notes the hook that a step promises.
func (h *hooks) promise(t campaign.Transition) {
	from, to := t.From, t.To
	void := func(o candidate.Outcome) bool { return o == candidate.Lost || o == candidate.Expired }
	add := func(event string, s elect.State, outcome candidate.Outcome) {
		h.promised = append(h.promised, promise{event, string(s.Lease.Holder), string(outcome), h.p.host.w.at()})
	}
	if from.Phase.HasTree() && void(to.Outcome) && !void(from.Outcome) {
		add(observe.HookLost, to, to.Outcome)
	}
	if t.Event.Kind == elect.Started && !void(to.Outcome) {
		add(observe.HookAcquire, to, "")
	}
	if from.Phase == candidate.Releasing && to.Phase != candidate.Releasing && h.starts {
		h.starts = false
		add(observe.HookEnd, from, from.Outcome)
	}
	if to.Phase == candidate.Done && slices.Contains([]candidate.Outcome{candidate.Denied, candidate.Skipped, candidate.Paused, candidate.Ineligible}, to.Outcome) {
		add(observe.HookSkip, elect.State{}, to.Outcome)
	}
	for _, a := range t.Actions {
		h.starts = h.starts || a.Kind == elect.Start
	}
}

// run is the runner's: it returns when the program has ended, or was killed.
func (h *hooks) run(_ string, _, env []string, limit time.Duration, cut <-chan struct{}) error {
	h.p.stands()
	if h.p.isDead() {
		return nil
	}
	h.begins(env)
	var err error
	switch h.rng.IntN(4) {
	case 0: // it ends at once
		time.Sleep(h.upTo(5 * time.Millisecond))
	case 1:
		err = h.lasts(h.upTo(limit), limit, cut)
	case 2:
		time.Sleep(h.upTo(time.Second))
		err = errors.New("status 1")
	default:
		err = h.lasts(time.Hour, limit, cut)
	}
	h.p.stands()
	h.ends(env, err)
	return err
}

func (h *hooks) upTo(d time.Duration) time.Duration { return h.p.host.w.upTo(h.rng, d) }

// lasts is a program that takes so long if it is not killed. An exec that hangs cannot be.
func (h *hooks) lasts(d, limit time.Duration, cut <-chan struct{}) error {
	w := h.p.host.w
	if exec := 30 * h.p.set.TTL; w.hooked && h.rng.IntN(2) == 0 {
		w.mu.Lock()
		h.stuck = w.at() + exec
		w.mu.Unlock()
		time.Sleep(exec)
	}
	select {
	case <-time.After(min(d, limit)):
		if d <= limit {
			return nil
		}
	case <-cut:
	}
	time.Sleep(h.upTo(hookKill))
	return errors.New("killed")
}

func variable(env []string, name string) (value string) {
	for _, v := range env {
		if rest, ok := strings.CutPrefix(v, name+"="); ok {
			value = rest
		}
	}
	return value
}

// begins checks that a hook is the next of those that were promised, but for some that were left
// out, and that it begins when the one before it has ended.
func (h *hooks) begins(env []string) {
	w := h.p.host.w
	w.mu.Lock()
	defer w.mu.Unlock()
	event, holder, outcome := variable(env, settings.EventVariable), variable(env, settings.HolderVariable), variable(env, settings.OutcomeVariable)
	w.noteLocked("%s: --on-%s begins: %s %s", h.p, event, holder, outcome)
	i := slices.IndexFunc(h.promised[h.next:], func(x promise) bool {
		return x.event == event && x.outcome == outcome && (x.holder == holder || event == observe.HookSkip)
	})
	if i < 0 {
		w.failLocked("%s: --on-%s of %s begins, and was not promised, or not after the ones before it", h.p, event, holder)
		return
	}
	for _, x := range h.promised[h.next : h.next+i] {
		h.passed[x.event]++
	}
	x := h.promised[h.next+i]
	h.next += i + 1
	if h.running {
		w.failLocked("%s: --on-%s of %s begins beside another hook", h.p, event, holder)
	}
	if since := max(x.at, h.idle); w.at() > since+slack && !h.p.stoodStillSince(since) {
		w.failLocked("%s: --on-%s of %s begins %s late", h.p, event, holder, w.at()-since)
	}
	h.running = true
	w.count.hooks++
}

func (h *hooks) ends(env []string, err error) {
	w := h.p.host.w
	w.mu.Lock()
	defer w.mu.Unlock()
	h.running, h.idle = false, w.at()
	if err != nil {
		h.failed[variable(env, settings.EventVariable)]++
	}
}

// finish is the end of the process: at some time the last hooks may be ordered to end.
func (h *hooks) finish() {
	w, orders := h.p.host.w, make(chan campaign.Received, 1)
	began, limit := w.at(), hookLimit
	if h.rng.IntN(2) == 0 {
		limit = h.upTo(hookLimit)
		time.AfterFunc(limit, func() { orders <- campaign.Received{Signal: 15, Order: true} })
	}
	h.Finish(orders)
	if h.p.isDead() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if by := max(began+limit, h.stuck) + hookKill; w.at() > by && !h.p.stoodStillSince(began) {
		w.failLocked("%s waits for its hooks until %s after it had to end", h.p, w.at()-by)
	}
	for _, x := range h.promised[h.next:] {
		h.passed[x.event]++
	}
	for event, n := range h.passed {
		if n != 0 {
			w.failLocked("%s: of --on-%s %d more were left out than warnings say", h.p, event, n)
		}
	}
	for event, n := range h.failed {
		if n != 0 {
			w.failLocked("%s: of --on-%s %d more failed than warnings say", h.p, event, n)
		}
	}
}

// The log of the hooks, of which the judge counts the warnings.

func (h *hooks) Enabled(context.Context, slog.Level) bool { return true }
func (h *hooks) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *hooks) WithGroup(string) slog.Handler            { return h }

func (h *hooks) Handle(_ context.Context, r slog.Record) error {
	if h.p.isDead() {
		return nil
	}
	w := h.p.host.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteLocked("%s: %s", h.p, r.Message)
	event, text, _ := strings.Cut(strings.TrimPrefix(r.Message, "--on-"), " ")
	switch {
	case r.Level == slog.LevelWarn && strings.HasPrefix(text, "was not run, "):
		h.passed[event]--
		w.count.leftOut++
	case r.Level == slog.LevelWarn && strings.HasPrefix(text, "failed: "):
		h.failed[event]--
	default:
		w.failLocked("%s: a hook says %q", h.p, r.Message)
	}
	return nil
}
