// Package campaign carries out what package elect decides: it asks the store,
// holds the command through a Process, keeps the time and informs an Observer. It
// promises that every answer, signal and deadline reaches the state machine in
// one order, one at a time, and that Run returns only when nothing of the run
// is left to do. It decides nothing itself.
package campaign

import (
	"context"
	"errors"
	"hash/fnv"
	"io"
	"math"
	"time"

	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// Settings are the rules of a run and its ties to the world.
type Settings struct {
	elect.Settings
	// Now is a clock that goes on while the machine sleeps.
	Now func() time.Duration
	// Request is what every attempt asks for; Run fills in the holder.
	Request lease.Request
	// TickAt says which tick a candidate has whose first answer was given at that time
	// of the store, in milliseconds; nil: that time itself. A tick is its own. WallNow
	// is this host's wall clock, and needed with it alone.
	TickAt  func(now int64) lease.Tick
	WallNow func() time.Time
	// Check returns an error while this host must not lead, within the limit or soon
	// after its context ends. It is needed with elect.Settings.Checked alone.
	Check func(ctx context.Context, limit time.Duration) error
	// NewHolder makes the id of the next candidacy.
	NewHolder func() lease.Holder
	// Signals are those that reach leaderrun.
	Signals <-chan Received
	// ClockSet says that the wall clock was set or the machine has woken; nil where
	// that is unknown.
	ClockSet <-chan struct{}
}

// Received is a signal that reached leaderrun: an order to stop, or one that is
// only passed on to the command.
type Received struct {
	Signal int
	Order  bool
	// FromTerminal: the command, once it runs, has received it as well.
	FromTerminal bool
}

// Process holds the command and its whole tree. Its methods do not block.
type Process interface {
	// Start starts the command under the lease, by startBy or not at all, its tree
	// to be dead by killBy, and reports what becomes of it: Started or StartFailed,
	// CommandEnded when descendants outlive the command, TreeGone last. It is called
	// again only after TreeGone or StartFailed.
	Start(startBy, killBy time.Duration, l lease.Lease, report func(elect.Event))
	// Extend moves the instant by which the tree is dead.
	Extend(killBy time.Duration)
	// Signal reaches the command, or what is left of its tree.
	Signal(signal int)
	// SignalRest repeats it for those that it did not reach: the command has ended.
	SignalRest(signal int)
	// Kill sends SIGKILL to the whole tree, as often as it takes.
	Kill()
	// Leave lets the rest of the tree live on unguarded.
	Leave()
}

// Observer sees every step, before its actions are carried out. Observe must not
// block.
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

// Result is the end of a run.
type Result struct {
	elect.State
	// Holder is what stood in the way at last, when the outcome is Denied.
	Holder *lease.HeldError
	// Led is the time from the grant to the end of the release, if there was a grant.
	Led time.Duration
}

// Run campaigns, and leads while the command runs. It returns when the state
// machine is done. Cancelling ctx cuts requests to the store short and nothing
// else: a run is ended by a signal.
func Run(ctx context.Context, set Settings, store lease.Store, process Process, observer Observer) Result {
	set.Request.Holder = set.NewHolder()
	set.Jitter = jitter(set.Request.Holder)
	work, end := context.WithCancel(ctx)
	r := &run{
		set: set, store: store, process: process, observer: observer,
		whole: ctx, ctx: work, state: elect.New(set.Settings), request: set.Request,
		reported: make(chan report), over: make(chan struct{}),
		cancel: func() {}, unlisten: func() {}, uncheck: func() {},
	}
	r.step(elect.Event{Kind: elect.Begin})
	for r.state.Phase != elect.Done {
		r.step(r.next())
	}
	end()
	close(r.over)
	r.ending.Wait()
	return Result{State: r.state, Holder: r.held, Led: set.Now() - r.state.AcquiredAt}
}

// jitter is a number from -1 to 1 that is a candidate's own.
func jitter(h lease.Holder) float64 {
	sum := fnv.New32a()
	_, _ = io.WriteString(sum, string(h)) // a hash takes everything
	return 2*float64(sum.Sum32())/math.MaxUint32 - 1
}

// next is the next thing that happens.
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
	r.learn(e)
	from := r.state
	var actions []elect.Action
	r.state, actions = elect.Step(from, e)
	r.observer.Observe(Transition{From: from, Event: e, To: r.state, Actions: actions})
	for _, a := range actions {
		r.act(a)
	}
}

// learn keeps what a denial says: who holds the key, and until when by this
// clock. Of the same lease the first word counts: the store's clock may have been
// set since. A lease of its own is over before it asks for another.
func (r *run) learn(e elect.Event) {
	seen := &r.request.Seen
	if e.Kind == elect.Granted {
		*seen = lease.Seen{Token: e.Lease.Token, TTL: e.Lease.TTL}
	}
	if !errors.As(e.Err, &r.held) {
		return
	}
	if r.held.Token > seen.Token || r.held.Token == seen.Token && r.held.Expires != seen.Expires {
		*seen = lease.Seen{Token: r.held.Token, TTL: r.held.TTL, Expires: r.held.Expires}
		r.seenUntil = e.At + r.held.Remaining
	}
}
