package simulate

import (
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// due is by when a tree must be dead, if its guard and elector do not stand still after
// since, and for some reasons if nothing comes between them and the store.
type due struct {
	since, by time.Duration
	why       string
	asks      bool // the store
}

// slack is what comes on top of a grace: the time until a guard that has not started the
// command yet is killed, and some for messages on their way.
const slack = killPatience + 20*time.Millisecond

// grace is the longest that a tree may have from its first signal until it is dead: it may
// be stopped for another reason already.
func (p *process) grace() time.Duration {
	return max(p.set.KillAfter, p.set.LostGrace) + p.set.KillMargin
}

// due is called with w.mu held.
func (t *tree) due(since, after time.Duration, why string, asks bool) {
	t.dues = append(t.dues, due{since, since + after + slack, why, asks})
}

// inTime judges the death of a tree, with w.mu held.
func (w *world) inTime(t *tree) {
	for _, d := range t.dues {
		over := w.at() - d.by
		if over <= 0 || t.p.stoodStillSince(d.since) || d.asks && (!t.p.host.withoutFaultSince(d.since) || w.forgot >= d.since) {
			continue
		}
		w.failLocked("%s, and the tree of %s died %s later than it had to", d.why, t.lease.Holder, over)
	}
}

// ordered is called when a signal has reached leaderrun. The tree is nil if there was none.
func (w *world) ordered(p *process, t *tree) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.at()
	after := p.grace()
	const same = 200 * time.Millisecond // signals that come together are one order
	switch {
	case p.orderedAt == 0:
		p.orderedAt = now
	case now-p.orderedAt > same && !p.stoodStillSince(now-same): // otherwise both may be heard at once
		after = p.set.KillMargin
	}
	if t != nil {
		t.due(now, after, "leaderrun was ordered to stop", false)
	}
}

// starting is called when leaderrun is about to start a command.
func (w *world) starting(t *tree) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := t.p.orderedAt; at > 0 {
		t.due(at, t.p.grace(), "leaderrun was ordered to stop before", false)
	}
}

// expectsPassOn checks that the command gets a signal that is no order.
func (w *world) expectsPassOn(p *process, t *tree, signal int) {
	since := w.at()
	w.faults.Go(func() {
		time.Sleep(slack)
		lives := t.runsNow() && t.guarded() && !p.isDead() && !p.stoodStillSince(since)
		passed := t.lastSignal(signal) >= since
		w.mu.Lock()
		defer w.mu.Unlock()
		if lives && !passed {
			w.failLocked("%s does not pass signal %d on", p, signal)
		}
	})
}

// setHostClock sets the wall clock of a host. A leader may have stood still, and asks the store.
func (w *world) setHostClock(p *process, step time.Duration) {
	w.note("%s: the host's clock is set by %s", p, step)
	h := p.host
	h.mu.Lock()
	h.wall += step
	h.mu.Unlock()
	select {
	case p.clockSet <- struct{}{}:
	default: // the one before was not heard yet
	}
	w.mu.Lock()
	w.hostsDiffer = true
	w.mu.Unlock()
	since, t := w.at(), p.held()
	w.faults.Go(func() {
		time.Sleep(slack)
		w.mu.Lock()
		defer w.mu.Unlock()
		keeps := t != nil && w.lives(string(t.lease.Holder)) && !p.last.Taken
		if keeps && p.asked < since && !p.isDead() && !p.stoodStillSince(since) && h.withoutFaultSince(since) {
			w.failLocked("%s does not ask the store when its host's clock is set", p)
		}
	})
}

// took is called with w.mu held and with every step of a process.
func (w *world) took(p *process, s campaign.Transition) {
	p.last = s.To
	switch sent := s.Event.Sent - p.offset; {
	case s.Event.Denial.Why == lease.Paused:
		w.deniedByAPause(p, sent)
	case s.Event.Kind == elect.LeaseLost && p.losable < sent:
		w.failLocked("%s loses its lease to one that came back with older data", p)
	}
	t := p.held()
	switch {
	case t == nil:
	case s.Event.Kind == elect.Started:
		if limit := p.set.MaxRuntime; limit > 0 {
			t.due(w.at()+limit, p.grace(), "--max-runtime was over", false)
		}
	case s.Event.Kind == elect.CommandEnded && p.set.Leftovers == candidate.LeftoversStop:
		const settle = 100 * time.Millisecond
		t.due(w.at(), settle+p.grace(), "the command had ended", false)
	}
}

// mayLose notes whether a request of a holder may be answered with the loss of its lease: not
// if the key is another's whose token is smaller and whom nobody has heard since the server
// started. That lease came back with older data. It is called with w.mu held.
func (w *world) mayLose(p *process, request []byte, before seen) {
	t, x := p.held(), idIn(before.value)
	// A renewal may begin with a read, which names nobody.
	if t == nil || w.store.writes(request) && !w.store.names(request, string(t.lease.Holder)) {
		return
	}
	older := x != "" && x != foreign && x != string(t.lease.Holder) && 0 < before.token && before.token < t.lease.Token
	if !older || w.writtenAt[x] >= w.restarted {
		p.losable = w.at()
	}
}

// deniedByAPause checks that no other candidate led from the request to its answer: then the
// answer names the leader. A member whose clock is ahead may not know that its lease lasts.
func (w *world) deniedByAPause(p *process, asked time.Duration) {
	for _, t := range w.live {
		if t.born < asked && t.out == 0 && w.stepped < t.seen && w.unwatched == 0 {
			w.failLocked("%s is told that the key is paused, and %s leads", p, t.lease.Holder)
		}
	}
}

// ended judges how a run ended.
func (w *world) ended(p *process, r elect.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, t := w.at(), p.held()
	if at := p.orderedAt; t == nil {
		asks := r.Lease.Token != 0 // to release a grant that came after the order
		if at > 0 && now-at > time.Second+slack && !p.stoodStillSince(at) && !(asks && !p.host.withoutFaultSince(at)) {
			w.failLocked("%s ran nothing, and ended %s after it was ordered to stop", p, now-at)
		}
		return
	}
	limit, life := p.set.MaxRuntime, t.dead-t.born
	switch {
	case r.Outcome == candidate.MaxRuntime && (limit == 0 || life < limit):
		w.failLocked("%s says that its command ran too long, after %s", p, life)
	case r.Outcome == candidate.Exited && t.cut:
		w.failLocked("I5: %s says that its command ended by itself, which it stopped", p)
	case r.Outcome == candidate.Exited && r.Exit != t.exit:
		w.failLocked("I5: %s says that its command ended with %+v, and it was %+v", p, r.Exit, t.exit)
	case r.Outcome == candidate.LeftBehind && p.set.Leftovers != candidate.LeftoversStop:
		w.failLocked("%s stopped leftovers, which it should not", p)
	}
}

// left is called when a tree is let go: what is promised of it ends.
func (w *world) left(t *tree) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteLocked("%s: the tree of %s is let go", t.p, t.lease.Holder)
	if t.p.set.Leftovers != candidate.LeftoversLeave || !t.ended {
		w.failLocked("%s lets a tree go, which it should not", t.p)
	}
	w.remove(t)
}
