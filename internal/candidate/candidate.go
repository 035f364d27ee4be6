// Package candidate has the nouns of a candidate's life: its phases, why it ended, how the
// command ended, and what a user may choose. They are the same for those who decide, carry
// out, report and configure.
package candidate

import (
	"math"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// Forever is how long a candidate stands by without a limit.
const Forever = time.Duration(math.MaxInt64)

// Phase is the state of a candidate in the state machine.
type Phase int

const (
	Campaigning Phase = iota // a request for the lease is on its way
	Standby                  // somebody else holds the key, or the store does not answer: waiting
	Checking                 // checking whether this host may ask
	Starting                 // granted, the command is being started
	Leading                  // the command runs and the last renewal was answered
	Doubtful                 // the command runs and renewals get no answer
	Stopping                 // the tree was signalled and has its grace
	Killing                  // the tree was sent SIGKILL
	Releasing                // the tree is gone, the lease is being released
	Done                     // over
)

var names = [...]string{"Campaigning", "Standby", "Checking", "Starting", "Leading", "Doubtful", "Stopping", "Killing", "Releasing", "Done"}

func (p Phase) String() string { return names[p] }

// Waiting reports whether the candidate may still be granted the key.
func (p Phase) Waiting() bool { return p <= Checking }

// HasTree reports whether a start was ordered and the tree is not known to be gone.
func (p Phase) HasTree() bool { return p >= Starting && p <= Killing }

// Running reports whether the command runs and is not being stopped.
func (p Phase) Running() bool { return p >= Starting && p <= Doubtful }

// Outcome is why a run ended, as hooks, log records and the store's records of runs name it.
type Outcome string

const (
	Exited      Outcome = "exited"      // the command ran to its end
	Ordered     Outcome = "ordered"     // leaderrun was ordered to stop
	HandedOver  Outcome = "handed-over" // an operator wants another leader
	Unfit       Outcome = "unfit"       // the check of this host failed, and a standby took the lease
	MaxRuntime  Outcome = "max-runtime" // ran too long
	LeftBehind  Outcome = "leftovers"   // the command ended, descendants had to be stopped
	Detached    Outcome = "detached"    // the command ended, descendants were left alive
	Lost        Outcome = "lost"        // the store said that the lease is not ours
	Expired     Outcome = "expired"     // renewals got no answer until stop-by
	GuardDied   Outcome = "guard-died"  // the guard ended before the command; the tree was killed
	NotStarted  Outcome = "not-started" // the command could not be started
	Denied      Outcome = "denied"      // somebody else leads
	Skipped     Outcome = "skipped"     // the tick is served
	Paused      Outcome = "paused"      // an operator paused the key
	Ineligible  Outcome = "ineligible"  // the check of this host failed
	Unchecked   Outcome = "unchecked"   // the check of this host gave no answer
	Unavailable Outcome = "unavailable" // the store gave no answer that counts
)

// Voids reports whether the outcome makes the command's result void.
func (o Outcome) Voids() bool { return o == Lost || o == Expired }

// Skips reports whether nothing ran because nothing needed to.
func (o Outcome) Skips() bool {
	return o == Denied || o == Skipped || o == Paused || o == Ineligible
}

// Exit is how the command ended.
type Exit struct {
	// Code is its exit code; Signal, if not 0, is the signal that ended it.
	Code, Signal int
}

// Status returns the exit status that a shell would show.
func (e Exit) Status() int {
	if e.Signal != 0 {
		return lease.ExitSignalled + e.Signal
	}
	return e.Code
}

// Leftovers says what to do with descendants that outlive the command.
type Leftovers int

const (
	LeftoversStop  Leftovers = iota // stop them, and keep the lease until they are gone
	LeftoversWait                   // keep the lease until they end by themselves
	LeftoversLeave                  // leave them alive; the guarantee ends there
)
