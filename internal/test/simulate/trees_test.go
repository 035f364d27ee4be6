package simulate

import (
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
)

// What becomes of commands' trees, and whether the promises allow it.

// takenOut is called when somebody else has taken the lease out of the store.
func (w *world) takenOut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.takenAt = w.at()
}

func (w *world) lives(holder string) bool {
	return slices.ContainsFunc(w.live, func(t *tree) bool { return string(t.lease.Holder) == holder })
}

// born is called when a command starts.
func (w *world) born(t *tree) {
	s := w.look()
	holder := string(t.lease.Holder)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteLocked("%s: the tree of %s lives, kill-by %s", t.p, holder, t.killBy)
	w.count.runs++
	if w.forgot > w.grantedAt[holder] {
		t.out = w.at()
	} else if s.value != holder {
		switch {
		case w.revoked[holder] > 0:
			t.out = w.revoked[holder]
		case w.stepped <= w.grantedAt[holder]:
			w.failLocked("I4: %s starts, the key says %q", holder, s.value)
		}
	}
	t.seen = w.grantedAt[holder]
	if t.lease.Token != w.tokens[holder] {
		w.failLocked("I2: %s starts with token %d, granted was %d", holder, t.lease.Token, w.tokens[holder])
	}
	for _, other := range w.live {
		w.count.overlaps++
		if !w.explained(other) && !w.explained(t) {
			w.failLocked("I1: %s starts, the tree of %s lives", holder, other.lease.Holder)
		}
	}
	w.live, t.born = append(w.live, t), w.at()
	if w.jobs != nil {
		w.jobs.started(w, t)
	}
}

// explained reports whether t may live beside another tree. That is so if the store has lost
// its lease since the last renewal, or its clock and a host's were set, and its holder could not be
// called: it was stopped or killed, its network failed, or the connection on which it waits
// for calls lost an answer.
func (w *world) explained(t *tree) bool {
	if t.out == 0 && (w.stepped < t.seen || !w.hostsDiffer) && w.forgot < t.seen {
		return false
	}
	if at := w.revoked[string(t.lease.Holder)]; at > 0 && w.takenAt < at { // the key stays taken until its holder has released it
		return w.stepped >= at || w.forgot >= at
	}
	if w.takenAt > t.seen { // out of the store by somebody else: its holder learns of that later
		return true
	}
	p := t.p
	const called = 500 * time.Millisecond
	// Once it can be reached again it learns of the loss, and its tree has its grace.
	since := w.at() - p.set.Attempt - called - p.set.LostGrace - p.set.KillMargin
	return p.isFrozen() || p.isDead() || p.hasDeadLink() || t.stopped || !p.host.reachedSince(since)
}

// observed is called with every transition.
func (w *world) observed(p *process, t campaign.Transition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.took(p, t)
	if w.jobs != nil {
		w.jobs.observed(p, t)
	}
}

// stored returns the store's time at a time of the world, in milliseconds.
func (w *world) stored(at time.Duration) int64 {
	return w.clock.at(at).UnixMilli()
}

// died is called when the last process of a tree has died.
func (w *world) died(t *tree) {
	s := w.look()
	holder := string(t.lease.Holder)
	w.mu.Lock()
	out := t.out
	w.mu.Unlock()
	untouched := t.p.host.withoutFaultSince(out) && !t.p.isFrozen() && !t.stopped
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteLocked("%s: the tree of %s is dead", t.p, holder)
	w.remove(t)
	w.inTime(t)
	now := w.at()
	if until := w.until[holder]; now >= until {
		w.failLocked("I3: the tree of %s died %s after its lease", holder, now-until)
	}
	if s.value != holder {
		if t.out == 0 && w.stepped < t.seen {
			w.failLocked("I3: the tree of %s died when the key said %q", holder, s.value)
		}
		set := t.p.set
		limit := set.Renew + set.Attempt + set.LostGrace + set.KillMargin
		if t.slow { // a guard that does not start the command is killed
			limit += killPatience
		}
		if untouched && t.out != 0 && now-t.out > limit {
			w.failLocked("the tree of %s died %s after its lease had been taken out, at most %s were promised", holder, now-t.out, limit)
		}
	}
}

// remove is called with w.mu held when a tree lives no more.
func (w *world) remove(t *tree) {
	w.live = slices.DeleteFunc(w.live, func(x *tree) bool { return x == t })
	t.dead, w.lastLive = w.at(), w.at()
}
