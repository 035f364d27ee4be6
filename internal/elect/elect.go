// Package elect decides. Step takes the state of one candidate and something
// that happened and returns the new state and what is to be done. It has no
// clock, no I/O and no goroutine: the same events give the same decisions.
//
// It promises, whatever the order of events:
//
//   - a command is started only while stop-by of an own lease lies ahead, and
//     never a second one before the first one's tree is gone;
//   - from kill-by on the answer to every event is a kill, until the tree is gone;
//   - the lease is released only when the tree is gone, and with its own token;
//   - lost and expired win over every other outcome.
//
// It does not promise that anybody carries the actions out: that is the work of
// package campaign, its only user.
package elect

import (
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// Forever as Settings.Wait stands by without a limit.
const Forever = time.Duration(1<<63 - 1)

// Settings are the rules of one run; they never change while it lasts.
type Settings struct {
	Timing
	// Retry is the pause between attempts while the store cannot wake a standby.
	Retry time.Duration
	// Jitter makes this candidate's pauses different from the others', or all that a
	// store has left alone would come back in the same instant: from -1, a quarter
	// shorter, to 1, a quarter longer.
	Jitter float64
	// Wait is how long a candidate stands by: 0 not at all, or Forever.
	Wait time.Duration
	// KillAfter is the grace of an ordered stop, LostGrace of a lost lease.
	KillAfter, LostGrace time.Duration
	// StopSignal is the first signal of a stop. An order to stop sends the
	// signal received instead, unless StopSignalNamed.
	StopSignal      int
	StopSignalNamed bool
	// StopOnRenewError gives up leadership at the first failed renewal.
	StopOnRenewError bool
	Leftovers        Leftovers
	// MaxRuntime stops the command after that time; 0 never.
	MaxRuntime time.Duration
	// Rejoin stands by again after a lost or expired lease.
	Rejoin bool
	// Checked says that this host asks only while a check of it succeeds.
	Checked bool
	// Yield is for how long a candidate leaves a key that may be free to others.
	Yield time.Duration
	// OncePer says that ticks are served: the record of a success is worth
	// retrying for as long as the lease is valid.
	OncePer bool
}

// varied is a pause between attempts as this candidate makes it.
func (s *Settings) varied(pause time.Duration) time.Duration {
	return pause + time.Duration(float64(pause/4)*s.Jitter)
}

// shorter is a pause between attempts of one who has a lease: for those a pause is
// as long as it may be.
func (s *Settings) shorter(pause time.Duration) time.Duration {
	return min(s.varied(pause), 2*pause-s.varied(pause))
}

// Leftovers says what becomes of descendants that outlive the command.
type Leftovers int

const (
	LeftoversStop  Leftovers = iota // stop them, and keep the lease until they are gone
	LeftoversWait                   // keep the lease until they end by themselves
	LeftoversLeave                  // let them be; the promise ends there
)

// leftoversSettle is how long descendants may outlive the command without
// being called leftovers: a pipe's reader (`exec > >(tee log)`) ends a moment
// after its writer.
const leftoversSettle = 100 * time.Millisecond

// refusedTries is how often a candidate that does not stand by asks an address
// at which nothing listens.
const refusedTries = 3

// lastAttempt is how far the last attempt may reach past the limit of standing
// by: limits are exact to half a second.
const lastAttempt = 300 * time.Millisecond

// checkLimit is how long the check of a host may take.
const checkLimit = 10 * time.Second

// quitPatience is how long a candidate that was ordered to stop waits for the
// answer to its request, so that a grant is released and not left to expire.
// A candidate in which nothing runs ends within a second.
const quitPatience = 500 * time.Millisecond

// sameOrder is how long the signal of an order, when it comes again, is still
// that order: timeout(1) signals its child, and then its whole process group.
const sameOrder = 100 * time.Millisecond

// settlePatience is how long every candidate follows a settling, also one that
// does not stand by: the stores' 300 ms by a clock that is slower than this one,
// and a moment for the last attempt.
const settlePatience = 400 * time.Millisecond

// callAhead is how long before the end of a lease a standby asks, which has the
// holder called if it has not renewed until then. When the lease is over that
// settling is, too, and a dead holder is followed at once:
//
//	the stores' 300 ms + a round trip < callAhead < 400 ms, when the stores call
const callAhead = 350 * time.Millisecond

// listenDelay is when a holder begins to listen, and doubtPause how often one in
// doubt renews. A store that has lost everything gives the holder 300 ms from the
// first candidate's attempt on to put its lease back:
//
//	max(listenDelay, doubtPause) + a round trip < 300 ms
//
// A ping waits for a holder that does not listen yet, and a command that ends
// within listenDelay does without.
const (
	listenDelay = 100 * time.Millisecond
	doubtPause  = 100 * time.Millisecond
)

// listenLasts is how long a connection lives that was worth making: where they
// end sooner, by a limit of the server's or a proxy's, the holder tries ever
// more rarely.
const listenLasts = time.Second

// releaseAttempts bounds the release. A release that fails costs the next
// candidate at most the TTL.
const releaseAttempts = 2

// Phase is where a candidate stands.
type Phase int

const (
	Campaigning Phase = iota // a request for the lease is on its way
	Standby                  // somebody else holds, or nobody answers: waiting
	Yielding                 // the key may be free, others come first
	Checking                 // it is found out whether this host may ask
	Starting                 // granted, the command is being started
	Leading                  // the command runs, the last renewal was answered
	Doubtful                 // the command runs, renewals are unanswered
	Stopping                 // the tree was signalled, its grace runs
	Killing                  // the tree was sent SIGKILL
	Releasing                // the tree is gone, the lease is being released
	Done                     // over
)

// Outcome is why a run ended; its text is what the outcome file says.
type Outcome string

const (
	Exited      Outcome = "exited"      // the command ran to its end
	Ordered     Outcome = "ordered"     // leaderrun was ordered to stop
	MaxRuntime  Outcome = "max-runtime" // ran too long
	LeftBehind  Outcome = "leftovers"   // the command ended, descendants had to be stopped
	Detached    Outcome = "detached"    // the command ended, descendants were left alive
	Lost        Outcome = "lost"        // the store said that the lease is somebody else's
	Expired     Outcome = "expired"     // renewals were unanswered until stop-by
	GuardDied   Outcome = "guard-died"  // the guard ended before the command; the tree was killed
	NotStarted  Outcome = "not-started" // the command could not be started
	Denied      Outcome = "denied"      // somebody else leads
	Skipped     Outcome = "skipped"     // the tick is served
	Paused      Outcome = "paused"      // an operator wants nobody to lead
	Ineligible  Outcome = "ineligible"  // the check says that this host must not lead
	Unavailable Outcome = "unavailable" // the store gave no answer that counts
)

// voids reports whether the outcome makes the command's result void.
func (o Outcome) voids() bool { return o == Lost || o == Expired }

// Exit is how the command ended.
type Exit struct {
	// Code is its exit code, or Signal the signal that ended it.
	Code, Signal int
}

// Status is the exit as a shell shows it.
func (e Exit) Status() int {
	if e.Signal != 0 {
		return lease.ExitSignalled + e.Signal
	}
	return e.Code
}
