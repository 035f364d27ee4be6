package elect

import (
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// State is the state of one candidate. It is a value: Step returns a new one. Use New
// to make the first. Instants are on the campaign's clock; 0 means never.
type State struct {
	set *Settings

	Phase Phase
	// Outcome is why a standby would end now, why a tree is being stopped, or why
	// the run ended.
	Outcome Outcome
	// Err is the last cause of Unavailable, Skipped, Paused, Ineligible, Unchecked, NotStarted, Lost, Expired or
	// GuardDied.
	Err error

	// InFlight: a request to the store is unanswered. Asked: this is not the first
	// request, so it need not dial. Retired: the holder id is used up, the next
	// attempt takes a new one. Outdated: the answer to the unanswered request may be
	// older than a call of the store, or than a time when this process stood still.
	InFlight, Asked, Retired, Outdated bool

	// Began is when the candidacy began. WaitUntil is when standing by ends. WakeAt
	// is when a standby asks again without a wake-up.
	Began, WaitUntil, WakeAt time.Duration
	// Woken: the store woke this candidate, which has not asked since.
	Woken bool
	// SettleUntil is when the candidate stops waiting for a key to settle.
	SettleUntil time.Duration
	// Tick is the candidate's tick, known from the store's first answer on. It stays
	// the same however long the candidate stands by.
	Tick int64
	// Refused counts refused connections in a row.
	Refused int
	// Backoff is the pause before a rejoin.
	Backoff time.Duration

	// Taken: the store said that the lease is no longer ours.
	Taken bool
	// Lease is the store's last answer; its instants count from when the request was
	// sent. AcquiredAt is when the grant arrived, RenewAt when to renew.
	Lease                                           lease.Lease
	AcquiredAt, RenewAt, StopBy, KillBy, ValidUntil time.Duration

	// Listening: the store can call the holder, since ListenedAt. Otherwise the holder
	// tries again at ListenAt, ListenPause after the last try, or when a renewal is
	// answered. NoCalls: this store cannot call.
	Listening, NoCalls                bool
	ListenedAt, ListenAt, ListenPause time.Duration

	// Tree: a start was ordered, and its tree is not known to be gone. Ran: the
	// command was started. Ended: it ended, as Exit says, and Left outlived it.
	Tree, Ran, Ended bool
	Exit             Exit
	Left             string
	// MaxAt ends the maximum runtime. At LeftoversAt survivors become leftovers.
	// KillAt ends the grace period.
	MaxAt, LeftoversAt, KillAt time.Duration

	// CheckAt is the next check of a leader's host. UnfitSince is when its checks began to
	// fail, 0 while they succeed. Offering: others may take the lease.
	CheckAt, UnfitSince time.Duration
	Offering            bool

	// HandedOver: an operator wants another leader. It does not count as an order to
	// stop: a first order after it leaves the command its grace.
	HandedOver bool

	// Orders counts the orders to stop. The last one came at OrderedAt; Signal is the
	// signal of the first. At QuitAt the candidate no longer waits for an unanswered request.
	Orders, Signal    int
	OrderedAt, QuitAt time.Duration

	// Releases counts the attempts to release. RetryAt is the time of the next, and
	// GiveUpAt is when an unanswered one has failed.
	Releases          int
	RetryAt, GiveUpAt time.Duration
}

// New returns a new candidate. Its first event must be Begin.
func New(set Settings) State { return State{set: &set} }

// Wake returns when the candidate needs a Timer event; ok is false if it needs none.
// Earlier and later Timer events do no harm.
func (s State) Wake() (at time.Duration, ok bool) {
	at = Forever
	consider := func(ts ...time.Duration) {
		for _, t := range ts {
			if t != 0 {
				at = min(at, t)
			}
		}
	}
	switch s.Phase {
	case Campaigning:
		consider(s.QuitAt)
	case Standby:
		consider(s.WakeAt)
	case Starting, Leading, Doubtful, Stopping, Killing:
		consider(s.MaxAt, s.LeftoversAt, s.KillAt)
		if s.Phase != Killing {
			consider(s.KillBy)
		}
		if s.running() {
			consider(s.CheckAt)
		}
		if !s.Outcome.Voids() {
			consider(s.StopBy)
		}
		if s.keeping() && !s.InFlight {
			consider(s.RenewAt)
			if !s.Listening && !s.NoCalls {
				consider(s.ListenAt)
			}
		}
	case Releasing:
		consider(s.RetryAt)
		if s.InFlight {
			consider(s.GiveUpAt)
		}
	}
	return at, at != Forever
}

// Waiting reports whether the candidate may still be granted the key.
func (s State) Waiting() bool {
	return s.Phase == Campaigning || s.Phase == Standby || s.Phase == Checking
}

// keeping reports whether the lease must be renewed: there is a tree, and the store has
// not said that the lease is lost. Even an expired lease is renewed: otherwise a store
// that lost its data would grant it to others while the tree is being stopped.
func (s State) keeping() bool { return s.Tree && !s.Taken }

// running reports whether the command runs and is not being stopped.
func (s State) running() bool {
	return s.Phase == Starting || s.Phase == Leading || s.Phase == Doubtful
}
