package observe

import (
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// The events that have hooks.
const (
	HookAcquire = "acquire" // the command has started under the lease
	HookLost    = "lost"    // the lease was lost or has expired
	HookEnd     = "end"     // the run ended, and its lease was released or given up
	HookSkip    = "skip"    // nothing ran, and nothing needed to
)

// Hook is one such event.
type Hook struct {
	Event string
	// Key, Holder and Token belong to the lease, Holder and Token of HookSkip to the leader, if known.
	Key    string
	Holder lease.Holder
	Token  int64
	// Outcome is why the lease was lost, the run ended or nothing ran; empty for
	// HookAcquire.
	Outcome candidate.Outcome
	// For HookEnd: leaderrun's exit status, when the start of the command was ordered,
	// and when its tree was gone.
	Status         int
	Started, Ended time.Time
}

// Hooks is a campaign.Observer that calls a function for each event, in order and one at a
// time, from its own goroutine.
type Hooks struct {
	queue   chan Hook
	done    chan struct{}
	leftOut func(Hook)
	status  func(elect.State) int
	// started and ended are the times of the newest run.
	started, ended time.Time
}

// MaxWaiting is how many events can wait while a hook hangs.
const MaxWaiting = 16

// NewHooks passes the events to call until End, and those that cannot wait to leftOut, which
// must not block. status returns the exit status of a run that ended in a state.
func NewHooks(call, leftOut func(Hook), status func(elect.State) int) *Hooks {
	h := &Hooks{queue: make(chan Hook, MaxWaiting), done: make(chan struct{}), leftOut: leftOut, status: status}
	go func() {
		defer close(h.done)
		for hook := range h.queue {
			call(hook)
		}
	}()
	return h
}

// End says that nothing more will be observed. The channel is closed when the last call
// returns.
func (h *Hooks) End() <-chan struct{} {
	close(h.queue)
	return h.done
}

// Observe queues the event of a step, if there is one.
func (h *Hooks) Observe(t campaign.Transition) {
	h.note(t)
	l := t.To.Lease
	switch {
	case t.Event.Kind == elect.Started && t.To.Leads():
		h.put(Hook{Event: HookAcquire, Key: l.Key, Holder: l.Holder, Token: l.Token})
	case voided(t):
		h.put(Hook{Event: HookLost, Key: l.Key, Holder: l.Holder, Token: l.Token, Outcome: t.To.Outcome})
	case over(t):
		from := t.From // To may belong to the next run
		h.put(Hook{Event: HookEnd, Key: from.Lease.Key, Holder: from.Lease.Holder, Token: from.Lease.Token, Outcome: from.Outcome,
			Status: h.status(from), Started: h.started, Ended: h.ended})
	case skipped(t):
		h.put(skip(t.To))
	}
}

// note records when the run started and ended.
func (h *Hooks) note(t campaign.Transition) {
	if starts(t) {
		h.started = time.Now()
	}
	if t.From.Phase != candidate.Releasing && t.To.Phase == candidate.Releasing {
		h.ended = time.Now()
	}
}

// over reports whether a run whose start was ordered has ended.
func over(t campaign.Transition) bool {
	return t.From.Phase == candidate.Releasing && t.To.Phase != candidate.Releasing && t.From.AcquiredAt != 0
}

// skip returns the event of a skipped run, with the leader if the store named it.
func skip(s elect.State) Hook {
	hook := Hook{Event: HookSkip, Outcome: s.Outcome}
	if holder := s.Denial.Holder(); s.Outcome == candidate.Denied && s.Denial.Why == lease.Held && holder != "" {
		hook.Holder, hook.Token = holder, s.Denial.Token
	}
	return hook
}

func (h *Hooks) put(hook Hook) {
	select {
	case h.queue <- hook:
	default:
		h.leftOut(hook)
	}
}

// skipped reports whether the run ends with this step because nothing needed to run.
func skipped(t campaign.Transition) bool {
	return t.From.Phase != candidate.Done && t.To.Phase == candidate.Done && t.To.Outcome.Skips()
}
