package elect

import (
	"fmt"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// EventKind is the kind of an event. The comments name the fields it uses.
type EventKind int

const (
	Begin         EventKind = iota // the candidacy begins
	Timer                          // time has passed, nothing else
	Granted                        // Sent, Lease
	Denied                         // Denial: the key is not granted
	MayLead                        // the check of this host succeeded
	MayNotLead                     // Err: it failed
	NoAnswer                       // Err: no usable answer to acquire, renewal or wait
	Woke                           // the key may be free
	CannotWake                     // the store has no wake-ups, or cannot call the holder
	Started                        // the command runs
	StartFailed                    // Err: the command could not be started
	Renewed                        // Sent, Lease
	LeaseLost                      // Err: the store says that the lease is not ours
	Pinged                         // the store asks the holder for a sign of life
	Broken                         // Err: the connection on which the holder listens was lost
	ClockSet                       // the wall clock was set or the machine slept: this process may have stood still
	Order                          // Signal: leaderrun is ordered to stop
	PassOn                         // Signal: to pass on to the command
	CommandEnded                   // Exit, Left: the command ended, descendants are alive
	TreeGone                       // Exit and Expired, or Err if the guard died: the whole tree is dead
	Released                       // the lease was released, or was no longer ours
	ReleaseFailed                  // Err
)

// Event is something that happened, and when it was reported.
type Event struct {
	Kind EventKind
	// At is when the event was reported. It never goes backwards.
	At time.Duration
	// Sent is the time just before the answered request was sent.
	Sent  time.Duration
	Lease lease.Lease
	// Denial says why; its Tick is the candidate's tick at the store's time of the answer.
	Denial lease.Condition
	Signal int
	// FromTerminal: a running command has received the signal, too.
	FromTerminal bool
	Exit         candidate.Exit
	// Expired: the guard found something alive at the kill-by that it knew.
	Expired bool
	// Left names a living descendant, for messages.
	Left string
	Err  error
}

// ActionKind is the kind of an action. The comments name the fields it uses and the
// events that answer it.
type ActionKind int

const (
	Acquire    ActionKind = iota // Timeout, Fresh, Waits, Tick: ask for the lease; answers Granted, Denied or NoAnswer
	Check                        // Timeout, Beside: find out whether this host may lead; answers MayLead or MayNotLead
	Wait                         // Timeout: wait for a wake-up; answers Woke, CannotWake or NoAnswer
	Pass                         // hand a wake-up on
	Start                        // StartBy, KillBy: start the command under Lease; answers Started or StartFailed
	Extend                       // KillBy: for the guard
	Renew                        // Timeout; answers Renewed, LeaseLost or NoAnswer
	Listen                       // wait until the store asks for a sign of life; answers Pinged, Broken or CannotWake
	Signal                       // Signal: to the command, or to what is left of its tree
	SignalRest                   // Signal: send it to the descendants that have not received it: the command has ended
	Kill                         // SIGKILL to the tree; repeated kills do no harm
	Leave                        // leave the leftovers alive and end the guard
	Release                      // Timeout, Result; answers Released or ReleaseFailed
)

// Action is something to do. The order of actions matters.
type Action struct {
	Kind    ActionKind
	Timeout time.Duration
	// Fresh asks with a new holder id; Waits says that this is not the last attempt.
	Fresh, Waits bool
	// Beside checks while requests go on.
	Beside bool
	// Tick is the candidate's tick; 0 while it has none.
	Tick int64
	// StartBy is the latest time for a start.
	StartBy, KillBy time.Duration
	Lease           lease.Lease
	Signal          int
	Result          lease.Result
}

var (
	eventNames = [...]string{"begin", "timer", "granted", "denied", "may lead", "may not lead", "no answer", "woke", "cannot wake",
		"started", "start failed", "renewed", "lost", "pinged", "broken", "clock set", "order", "pass on", "command ended", "tree gone", "released", "release failed"}
	actionNames = [...]string{"acquire", "check", "wait", "pass", "start", "extend", "renew", "listen", "signal", "signal rest", "kill", "leave", "release"}
)

// String returns the phase, with the outcome if there is one: Stopping(lost).
func (s State) String() string {
	if s.Outcome == "" {
		return s.Phase.String()
	}
	return fmt.Sprintf("%s(%s)", s.Phase, s.Outcome)
}

func (e Event) String() string {
	name := eventNames[e.Kind]
	switch e.Kind {
	case Denied:
		return string(e.Denial.Why)
	case Order, PassOn:
		if e.FromTerminal {
			name = "terminal's " + name
		}
		return fmt.Sprintf("%s %d", name, e.Signal)
	case CommandEnded, TreeGone:
		if e.Expired {
			name += " at kill-by"
		}
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

// Line formats a step like docs/design/state-machine.md and the tests: from | event | to |
// actions.
func Line(from State, e Event, to State, actions []Action) string {
	words := make([]string, len(actions))
	for i, a := range actions {
		words[i] = a.String()
	}
	return fmt.Sprintf("%s | %s | %s | %s", from, e, to, strings.Join(words, ", "))
}
