// Package campaign carries out the decisions of package elect: it sends requests to the
// store, controls the command through a Process, watches the clock and informs an
// Observer. It guarantees that answers, signals and deadlines reach the state machine one
// at a time, and that Run returns only when nothing is left to do. It does not decide
// anything itself.
package campaign

import (
	"context"
	"hash/fnv"
	"io"
	"math"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// Settings are the rules of a run and its connections to the world.
type Settings struct {
	elect.Settings
	// Now is a clock that goes on while the machine sleeps.
	Now func() time.Duration
	// Request is the request of every attempt; Run fills in the holder.
	Request lease.Request
	// TickAt returns the tick of a candidate whose first answer came at this time of the
	// store, in milliseconds; if nil, the time is the tick. TickAt of a tick is the same
	// tick. WallNow is this host's wall clock; it is needed only with TickAt.
	TickAt  func(now int64) lease.Tick
	WallNow func() time.Time
	// Check returns an error while this host must not lead, within the limit or soon
	// after its context ends. It is needed only with elect.Settings.Checked.
	Check func(ctx context.Context, limit time.Duration) error
	// NewHolder returns the id of the next candidacy.
	NewHolder func() lease.Holder
	// Signals are the signals that reach leaderrun.
	Signals <-chan Received
	// ClockSet reports that the wall clock was set or the machine woke up; nil if that
	// cannot be known.
	ClockSet <-chan struct{}
}

// Received is a signal that reached leaderrun: an order to stop, or one that is
// only passed on to the command.
type Received struct {
	Signal int
	Order  bool
	// FromTerminal: a running command has received it, too.
	FromTerminal bool
}

// Process controls the command and its whole tree. Its methods do not block.
type Process interface {
	// Start starts the command under the lease, by startBy or not at all; its tree must
	// be dead by killBy. It reports Started or StartFailed, CommandEnded if descendants
	// outlive the command, and TreeGone last. It is called again only after TreeGone or
	// StartFailed.
	Start(startBy, killBy time.Duration, l lease.Lease, report func(elect.Event))
	// Extend moves the time by which the tree must be dead.
	Extend(killBy time.Duration)
	// Signal signals the command, or the rest of its tree if the command ended.
	Signal(signal int)
	// SignalRest signals the descendants that Signal has not reached: the command ended.
	SignalRest(signal int)
	// Kill sends SIGKILL to the whole tree until it is dead.
	Kill()
	// Leave leaves the rest of the tree alive, without a guard.
	Leave()
}

// Observer sees every step before its actions are carried out. Observe must not block.
type Observer interface {
	Observe(Transition)
}

// Transition is one step of the state machine.
type Transition struct {
	From    elect.State
	Event   elect.Event
	To      elect.State
	Actions []elect.Action
}

// Run campaigns for the lease and runs the command while it leads. It returns when the
// state machine is done, with its last state. Cancelling ctx only cancels requests to the store: to end a run,
// send a signal.
func Run(ctx context.Context, set Settings, store lease.Store, process Process, observer Observer) elect.State {
	set.Request.Holder = set.NewHolder()
	set.Jitter = jitter(set.Request.Holder)
	work, end := context.WithCancel(ctx)
	r := &run{
		set: set, store: store, process: process, observer: observer,
		caller: ctx, ctx: work, state: elect.New(set.Settings), request: set.Request,
		reported: make(chan report), over: make(chan struct{}),
		cancel: func() {}, unlisten: func() {}, uncheck: func() {},
	}
	r.step(elect.Event{Kind: elect.Begin})
	for r.state.Phase != candidate.Done {
		r.step(r.next())
	}
	end()
	close(r.over)
	r.ending.Wait()
	return r.state
}

// jitter derives a number from -1 to 1 from the candidate's id.
func jitter(h lease.Holder) float64 {
	sum := fnv.New32a()
	_, _ = io.WriteString(sum, string(h)) // a hash never fails
	return 2*float64(sum.Sum32())/math.MaxUint32 - 1
}

// next waits for the next event.
func (r *run) next() elect.Event {
	var due <-chan time.Time
	if at, ok := r.state.Wake(); ok {
		timer := time.NewTimer(at - r.set.Now())
		defer timer.Stop()
		due = timer.C
	}
	for {
		select {
		case s := <-r.set.Signals:
			kind := elect.PassOn
			if s.Order {
				kind = elect.Order
			}
			return elect.Event{Kind: kind, Signal: s.Signal, FromTerminal: s.FromTerminal}
		case t := <-r.reported:
			if t.request == 0 || t.request == r.requests {
				return t.event
			}
		case <-r.set.ClockSet:
			return elect.Event{Kind: elect.ClockSet}
		case <-due:
			return elect.Event{Kind: elect.Timer}
		}
	}
}

func (r *run) step(e elect.Event) {
	e.At = r.set.Now()
	if e.Kind == elect.Granted {
		r.sight.Granted(e.Lease)
	}
	r.sight.Denied(e.Denial, e.At)
	from := r.state
	var actions []elect.Action
	r.state, actions = elect.Step(from, e)
	r.observer.Observe(Transition{From: from, Event: e, To: r.state, Actions: actions})
	for _, a := range actions {
		r.act(a)
	}
}
