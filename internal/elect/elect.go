// Package elect makes the decisions. Step takes the state of one candidate and an event,
// and returns the new state and the actions to take. It has no clock, no I/O and no
// goroutine: the same events give the same decisions.
//
// It guarantees, for every order of events:
//
//   - a command is started only while stop-by of the own lease is in the future, and
//     never while the tree of an earlier command may be alive;
//   - from kill-by on, the answer to every event is a kill, until the tree is gone;
//   - the lease is released only when the tree is gone, and with its own token;
//   - lost and expired win over every other outcome.
//
// It does not carry out the actions: package campaign, its only user, does.
package elect

import (
	"errors"
	"fmt"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
)

// Settings are the rules of one run. They do not change during the run.
type Settings struct {
	Timing
	// Retry is the pause between attempts while the store cannot wake a standby.
	Retry time.Duration
	// Jitter varies this candidate's pauses, from -1, a quarter shorter, to 1, a quarter
	// longer. Without it all candidates would ask a store at the same time after an
	// outage.
	Jitter float64
	// Wait is how long a candidate stands by: 0 means not at all; or candidate.Forever.
	Wait time.Duration
	// KillAfter is the grace of an ordered stop, LostGrace of a lost lease.
	KillAfter, LostGrace time.Duration
	// StopSignal is the first signal of a stop. An order to stop sends the
	// signal received instead, unless StopSignalNamed.
	StopSignal      int
	StopSignalNamed bool
	// StopOnRenewError gives up leadership at the first failed renewal.
	StopOnRenewError bool
	Leftovers        candidate.Leftovers
	// MaxRuntime stops the command after that time; 0 means never.
	MaxRuntime time.Duration
	// Rejoin stands by again after a lost or expired lease.
	Rejoin bool
	// Checked says that this host asks only while its check succeeds.
	Checked bool
	// OncePer says that the run has a tick. A release that records its success is
	// retried for as long as the lease is valid.
	OncePer bool
}

// varied returns a pause between attempts with this candidate's jitter.
func (s *Settings) varied(pause time.Duration) time.Duration {
	return pause + time.Duration(float64(pause/4)*s.Jitter)
}

// shorter returns a pause between attempts of a holder. Its pause is already the longest
// allowed, so jitter only shortens it.
func (s *Settings) shorter(pause time.Duration) time.Duration {
	return min(s.varied(pause), 2*pause-s.varied(pause))
}

// leftoversSettle is how long descendants may outlive the command before they count as
// leftovers: the reader of a pipe (`exec > >(tee log)`) ends a moment after its writer.
const leftoversSettle = 100 * time.Millisecond

// refusedTries is how often a candidate without --wait asks an address that refuses
// connections.
const refusedTries = 3

// lastAttempt is how far the last attempt may go beyond the limit of --wait, which is
// exact to half a second.
const lastAttempt = 300 * time.Millisecond

// CheckLimit is how long the check of a host may take.
const CheckLimit = 10 * time.Second

// quitPatience is how long a candidate that was ordered to stop waits for the answer to
// its request, so that a grant is released and not left to expire. It is short because a
// candidate that runs nothing ends within a second.
const quitPatience = 500 * time.Millisecond

// sameOrder is how long a further signal counts as the same order: timeout(1) signals
// its child, and then its whole process group, and a wrapper may answer SIGINT with SIGTERM. The
// command gets the other signal, too, unless --signal is named: it may ignore the first.
const sameOrder = 100 * time.Millisecond

// settleMoment is how long a key settles mostly: the stores' 300 ms on a slower clock. By then a
// living holder that was called has renewed, so a candidate asks again even if the key settles
// for longer.
const settleMoment = 400 * time.Millisecond

// settlePatience is how long every candidate waits for a settling, even one without --wait: a TTL
// at most, twice the time of a slow request, and some time for the last attempt.
func (s *Settings) settlePatience() time.Duration { return s.TTL + 2*s.FirstAttempt + settleMoment }

// callAhead is how long before the end of a lease a standby asks. If the holder has not
// renewed by then, the store calls it and the key settles. The settling is over when the
// lease is, so a dead holder is followed at once:
//
//	the stores' 300 ms + a round trip < callAhead < 400 ms, when the stores call
const callAhead = 350 * time.Millisecond

// listenDelay is when a holder starts to listen, and doubtPause is the pause between
// renewals in doubt. A store that has lost all data gives the holder 300 ms, from the
// first candidate's attempt, to put its lease back:
//
//	max(listenDelay, doubtPause) + a round trip < 300 ms
//
// The store keeps a ping for a holder that does not listen yet. For a command that ends
// within listenDelay there is no listening at all.
const (
	listenDelay = 100 * time.Millisecond
	doubtPause  = 100 * time.Millisecond
)

// listenLasts is how long a connection should live. Where a limit of a server or a proxy
// ends connections sooner, the holder connects less and less often.
const listenLasts = time.Second

// releaseAttempts bounds the release. A failed release costs the next candidate at most
// the TTL.
const releaseAttempts = 2

// ErrUnchecked in the error of a MayNotLead says that the check gave no answer: it could not be
// executed, or did not end by itself.
var ErrUnchecked = errors.New("the check of this host gave no answer")

// ErrCheckLate is the ErrUnchecked of a check that did not end within the timeout of its Action.
var ErrCheckLate = fmt.Errorf("%w in time", ErrUnchecked)
