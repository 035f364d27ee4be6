package elect

import (
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// State is one candidate. States are values: Step returns a new one. The zero
// State is of no use: see New. Instants are on the campaign's clock; 0 means
// never.
type State struct {
	set *Settings

	Phase Phase
	// Outcome is why a standby would end now, why a tree is being stopped, or
	// why the run is over.
	Outcome Outcome
	// Err is the last cause of Unavailable, Skipped, Paused, Ineligible, NotStarted, Lost, Expired or
	// GuardDied.
	Err error

	// InFlight: a request to the store is unanswered. Asked: one was made
	// before; only the first pays for dialling. Retired: the holder id is used
	// up, the next attempt takes a new one. Dated: the request that is unanswered
	// left before the machine may have stood still.
	InFlight, Asked, Retired, Dated bool

	// Began is when the candidacy began and WaitUntil when standing by ends.
	// WakeAt is when a standby asks again by itself.
	Began, WaitUntil, WakeAt time.Duration
	// Yielded: others had their time to come first. Woken: the store woke this
	// candidate, which has not asked since.
	Yielded, Woken bool
	// SettleUntil is how long the candidate follows a settling store.
	SettleUntil time.Duration
	// Tick is the candidate's own once a store that serves ticks has answered; it
	// stays the same however long the candidate stands by.
	Tick int64
	// Refused counts refused connections in a row.
	Refused int
	// Backoff is the pause before a rejoin.
	Backoff time.Duration

	// Taken: the store says that the lease is not ours any more.
	Taken bool
	// Lease is what the store last said; the instants count from when that was
	// asked. AcquiredAt is when the grant arrived, RenewAt when to renew.
	Lease                                           lease.Lease
	AcquiredAt, RenewAt, StopBy, KillBy, ValidUntil time.Duration

	// Listening: the store can call on the holder, since ListenedAt. Otherwise it
	// is tried again at ListenAt, ListenPause after the last time, or once a
	// renewal is answered. NoCalls: this store cannot call.
	Listening, NoCalls                bool
	ListenedAt, ListenAt, ListenPause time.Duration

	// Tree: a start was ordered and its tree is not known to be gone. Ran: the
	// command was running. Ended: it is over, Exit says how and Left who
	// outlived it.
	Tree, Ran, Ended bool
	Exit             Exit
	Left             string
	// MaxAt ends the maximum runtime, LeftoversAt makes survivors leftovers,
	// KillAt ends the grace period.
	MaxAt, LeftoversAt, KillAt time.Duration

	// CheckAt is when this host is checked while it leads, UnfitSince since when the
	// checks fail. Offering: others may have the lease.
	CheckAt, UnfitSince time.Duration
	Offering            bool

	// HandedOver: another leader is wanted. It is no order: the first of
	// those leaves the command its grace.
	HandedOver bool

	// Orders counts orders to stop, the last of which came at OrderedAt; Signal is
	// the first one's. QuitAt ends the patience with an unanswered request after it.
	Orders, Signal    int
	OrderedAt, QuitAt time.Duration

	// Releases counts attempts to release; RetryAt is when to try once more, and
	// GiveUpAt when one that is not answered at all has failed.
	Releases          int
	RetryAt, GiveUpAt time.Duration
}

// New returns a candidate that has asked for nothing yet; its first event is
// Begin.
func New(set Settings) State { return State{set: &set} }

// Wake is when the candidate wants a Timer event at the latest; ok is false
// when it waits for something else. Earlier and later events do no harm.
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
	case Standby, Yielding:
		consider(s.WakeAt)
	case Starting, Leading, Doubtful, Stopping, Killing:
		consider(s.MaxAt, s.LeftoversAt, s.KillAt)
		if s.Phase != Killing {
			consider(s.KillBy)
		}
		if s.running() {
			consider(s.CheckAt)
		}
		if !s.Outcome.voids() {
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

// Waiting reports whether this is a candidate that may still be granted the key.
func (s State) Waiting() bool {
	return s.Phase == Campaigning || s.Phase == Standby || s.Phase == Yielding || s.Phase == Checking
}

// keeping reports whether the lease is still ours to renew: a tree needs it. When
// it has expired, too: a store that lost it grants it to others while the tree is
// being stopped, unless it hears of the holder.
func (s State) keeping() bool { return s.Tree && !s.Taken }

// running reports whether the command runs and nobody is stopping it.
func (s State) running() bool {
	return s.Phase == Starting || s.Phase == Leading || s.Phase == Doubtful
}
