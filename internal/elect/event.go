package elect

import (
	"fmt"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// EventKind says what happened.
type EventKind int

const (
	Begin         EventKind = iota // the candidacy begins
	Timer                          // time has passed: nothing else happened
	Granted                        // Sent, Lease
	Held                           // Remaining: somebody else has the key
	Settling                       // Remaining: a holder may live of whom the store cannot know, and is called
	ClockDiffers                   // Tick: that of the request was chosen for another time than the store's
	TickDone                       // Tick, if it is known: that of the candidate is served
	KeyPaused                      // Remaining: nobody is granted the key
	MayLead                        // the check of this host succeeded
	MayNotLead                     // Err: it failed
	NoAnswer                       // Err: acquire, renewal or wait without an answer that counts
	Woke                           // the key may be free
	CannotWake                     // the store has no wake-ups, or nothing to listen to
	Started                        // the command runs
	StartFailed                    // Err: the command could not be started, nothing runs
	Renewed                        // Sent, Lease
	LeaseLost                      // Err: the store says that the lease is not ours
	Pinged                         // the store wants a sign of life from its holder
	Broken                         // Err: the connection on which the holder listens is gone
	ClockSet                       // the wall clock was set, or the machine has slept: it may have stood still before
	Order                          // Signal: leaderrun is ordered to stop
	PassOn                         // Signal: for the command
	CommandEnded                   // Exit, Left: the command is over, descendants live
	TreeGone                       // Exit, or Err when the guard died: nothing lives
	Released                       // the lease is released, or was not ours any more
	ReleaseFailed                  // Err
)

// Event is something that happened, and when it was reported.
type Event struct {
	Kind EventKind
	// At is when the event was reported. It never goes back.
	At time.Duration
	// Sent is when the request that was answered left, read before it left.
	Sent      time.Duration
	Lease     lease.Lease
	Remaining time.Duration
	// Tick is the candidate's by the store's time of the answer.
	Tick   int64
	Signal int
	// FromTerminal: the command, once it runs, has received the signal as well.
	FromTerminal bool
	Exit         Exit
	// Left names one of the descendants that live, for people.
	Left string
	Err  error
}

// ActionKind says what is to be done.
type ActionKind int

const (
	Acquire    ActionKind = iota // Timeout, Fresh, Waits, Tick: ask for the lease; answers Granted, Held, Settling, ClockDiffers, TickDone, KeyPaused or NoAnswer
	Check                        // Timeout, Beside: find out whether this host may lead; answers MayLead or MayNotLead
	Wait                         // Timeout: wait for a wake-up; answers Woke, CannotWake or NoAnswer
	Pass                         // hand a wake-up on
	Start                        // StartBy, KillBy: start the command under Lease; answers Started or StartFailed
	Extend                       // KillBy: for the guard
	Renew                        // Timeout; answers Renewed, LeaseLost or NoAnswer
	Listen                       // wait until the store wants a sign of life; answers Pinged, Broken or CannotWake
	Signal                       // Signal: to the command, or to what is left of its tree
	SignalRest                   // Signal: the same once more, to what is left and has not had it: the command has ended
	Kill                         // SIGKILL to the tree; repeated kills do no harm
	Leave                        // let the leftovers be and end the guard
	Release                      // Timeout, Result; answers Released or ReleaseFailed
)

// Action is something to be done. The order of actions matters.
type Action struct {
	Kind    ActionKind
	Timeout time.Duration
	// Fresh asks with a new holder id; Waits says that this is not the last attempt.
	Fresh, Waits bool
	// Beside checks while requests go on.
	Beside bool
	// Tick is the candidate's own; 0 while it has none.
	Tick int64
	// StartBy is when a start comes too late.
	StartBy, KillBy time.Duration
	Lease           lease.Lease
	Signal          int
	Result          lease.Result
}

var (
	phaseNames = [...]string{"Campaigning", "Standby", "Yielding", "Checking", "Starting", "Leading", "Doubtful", "Stopping", "Killing", "Releasing", "Done"}
	eventNames = [...]string{"begin", "timer", "granted", "held", "settling", "clock differs", "tick done", "paused", "may lead", "may not lead", "no answer", "woke", "cannot wake",
		"started", "start failed", "renewed", "lost", "pinged", "broken", "clock set", "order", "pass on", "command ended", "tree gone", "released", "release failed"}
	actionNames = [...]string{"acquire", "check", "wait", "pass", "start", "extend", "renew", "listen", "signal", "signal rest", "kill", "leave", "release"}
)

func (p Phase) String() string { return phaseNames[p] }

// String is the phase, with the outcome where there is one: Stopping(lost).
func (s State) String() string {
	if s.Outcome == "" {
		return s.Phase.String()
	}
	return fmt.Sprintf("%s(%s)", s.Phase, s.Outcome)
}

func (e Event) String() string {
	name := eventNames[e.Kind]
	switch e.Kind {
	case Order, PassOn:
		if e.FromTerminal {
			name = "terminal's " + name
		}
		return fmt.Sprintf("%s %d", name, e.Signal)
	case CommandEnded, TreeGone:
		if e.Err == nil {
			return fmt.Sprintf("%s %d", name, e.Exit.Status())
		}
	}
	return name
}

func (a Action) String() string {
	name := actionNames[a.Kind]
	switch {
	case a.Kind == Signal, a.Kind == SignalRest:
		return fmt.Sprintf("%s %d", name, a.Signal)
	case a.Kind == Acquire && a.Fresh:
		return name + " anew"
	}
	return name
}

// Line is one step in the form of this package's tests and of docs/state-machine.md:
// from | event | to | actions.
func Line(from State, e Event, to State, actions []Action) string {
	words := make([]string, len(actions))
	for i, a := range actions {
		words[i] = a.String()
	}
	return fmt.Sprintf("%s | %s | %s | %s", from, e, to, strings.Join(words, ", "))
}
