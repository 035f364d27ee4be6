package observe

import (
	"errors"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// The events for which a program can be named.
const (
	HookAcquire = "acquire" // the command has started under the lease
	HookLost    = "lost"    // the lease was lost or has expired
	HookSkip    = "skip"    // nothing ran: somebody else leads, or the tick is served
)

// Hook is one such event, and what is known of it.
type Hook struct {
	Event string
	// Holder and Token are those of the lease; for HookSkip those of the
	// leader, if it is known.
	Holder lease.Holder
	Token  int64
	// Outcome is why; empty for HookAcquire.
	Outcome elect.Outcome
}

// Hooks is a campaign.Observer that calls on somebody for each event, in their order,
// one at a time, from a goroutine of its own.
type Hooks struct {
	queue chan Hook
	done  chan struct{}
	held  *lease.HeldError
}

// NewHooks hands the events to call; End ends it.
func NewHooks(call func(Hook)) *Hooks {
	const waiting = 16 // while a lease is lost again and again and the hooks hang
	h := &Hooks{queue: make(chan Hook, waiting), done: make(chan struct{})}
	go func() {
		defer close(h.done)
		for hook := range h.queue {
			call(hook)
		}
	}()
	return h
}

// End says that nothing more will be observed. The channel is closed when the
// last call has returned.
func (h *Hooks) End() <-chan struct{} {
	close(h.queue)
	return h.done
}

// Observe finds the events.
func (h *Hooks) Observe(t campaign.Transition) {
	errors.As(t.Event.Err, &h.held)
	lease := t.To.Lease
	switch {
	case t.Event.Kind == elect.Started && holds(t.To):
		h.put(Hook{Event: HookAcquire, Holder: lease.Holder, Token: lease.Token})
	case t.From.Tree && void(t.To.Outcome) && !void(t.From.Outcome):
		h.put(Hook{Event: HookLost, Holder: lease.Holder, Token: lease.Token, Outcome: t.To.Outcome})
	case skipped(t):
		h.put(h.skip(t.To.Outcome))
	}
}

// skip names the leader, if there is one and the store named it.
func (h *Hooks) skip(why elect.Outcome) Hook {
	hook := Hook{Event: HookSkip, Outcome: why}
	if why == elect.Denied && h.held != nil && h.held.Why == lease.HeldLeader && lease.Holder(h.held.Value).Valid() {
		hook.Holder, hook.Token = lease.Holder(h.held.Value), h.held.Token
	}
	return hook
}

func (h *Hooks) put(hook Hook) {
	select {
	case h.queue <- hook:
	default:
	}
}

// skipped reports whether the run ends with this step because nothing had to run.
func skipped(t campaign.Transition) bool {
	why := t.To.Outcome
	return t.From.Phase != elect.Done && t.To.Phase == elect.Done && (why == elect.Denied || why == elect.Skipped || why == elect.Paused)
}
