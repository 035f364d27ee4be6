package elect

import (
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// State is the state of one candidate. It is a value: Step returns a new one. Use New
// to make the first. Instants are on the campaign's clock; 0 means never.
//
// Each part is made when its phases begin and is zero before: see granted, release and
// afterRelease.
type State struct {
	set *Settings

	Phase candidate.Phase
	// Outcome is why a standby would end now, why a tree is being stopped, or why
	// the run ended.
	Outcome candidate.Outcome
	// Err is the last cause of Unavailable, Ineligible, Unchecked, NotStarted, Lost, Expired or
	// GuardDied; Denial is that of Denied, Skipped or Paused.
	Err error
	// Orders are the orders to stop so far.
	Orders Orders

	Candidacy // in every phase; from the grant on it is the one that would follow
	Hold      // from Starting on
	Tree      // from Starting on
	Ending    // from Releasing on
}

// Candidacy is what a candidate knows that asks for the lease.
type Candidacy struct {
	// Asked: this is not the first request, so it need not dial. Retired: the holder id is
	// used up, the next attempt takes a new one. Outdated: the answer to the unanswered
	// request may be older than a time when this process stood still. Woken: the store woke
	// this candidate, which has not asked since.
	Asked, Retired, Outdated, Woken bool
	// Began is when the candidacy began. WaitUntil is when standing by ends. WakeAt is when
	// a standby asks again without a wake-up. QuitAt is when a candidate that was ordered to
	// stop no longer waits for the answer to its request.
	Began, WaitUntil, WakeAt, QuitAt time.Duration
	// Denial is the last answer, if it was one.
	Denial lease.Condition
	// SettleUntil is when the candidate stops waiting for a key to settle.
	SettleUntil time.Duration
	// Tick is the candidate's tick, known from the store's first answer on. It stays
	// the same however long the candidate stands by.
	Tick int64
	// Refused counts refused connections in a row.
	Refused int
	// Backoff is the pause before a rejoin.
	Backoff time.Duration
}

// next returns the candidacy that follows if the candidate leads no more.
func (c Candidacy) next() Candidacy {
	return Candidacy{Asked: true, Retired: true, Began: c.Began, WaitUntil: c.WaitUntil, Tick: c.Tick, Backoff: c.Backoff}
}

// Hold is what a holder knows of its lease.
type Hold struct {
	// Lease is the store's last answer; its instants count from when the request was
	// sent. AcquiredAt is when the grant arrived, RenewAt when to renew.
	Lease                                           lease.Lease
	AcquiredAt, RenewAt, StopBy, KillBy, ValidUntil time.Duration
	// Renewing: a renewal is unanswered. RenewAgain: its answer may be older than a call of
	// the store, or than a time when this process stood still. Taken: the store said that
	// the lease is no longer ours.
	Renewing, RenewAgain, Taken bool
	// HandedOver: an operator wants another leader. It does not count as an order to
	// stop: a first order after it leaves the command its grace.
	HandedOver bool

	// Listening: the store can call the holder, since ListenedAt. Otherwise the holder
	// tries again at ListenAt, ListenPause after the last try, or when a renewal is
	// answered. NoCalls: this store cannot call.
	Listening, NoCalls                bool
	ListenedAt, ListenAt, ListenPause time.Duration

	// CheckAt is the next check of a leader's host. UnfitSince is when its checks began to
	// fail, 0 while they succeed. Offering: others may take the lease.
	CheckAt, UnfitSince time.Duration
	Offering            bool
}

// Tree is what is known of the command and its descendants. While they may live is said by
// Phase.HasTree.
type Tree struct {
	// Ran: the command was started. Ended: it ended, as Exit says, and Left outlived it.
	Ran, Ended bool
	Exit       candidate.Exit
	Left       string
	// MaxAt ends the maximum runtime. At LeftoversAt survivors become leftovers.
	// KillAt ends the grace period.
	MaxAt, LeftoversAt, KillAt time.Duration
}

// Ending is the release of the lease.
type Ending struct {
	// Releases counts the attempts. The last one is unanswered and has failed at GiveUpAt,
	// or has failed and is repeated at RetryAt: one of the two is 0.
	Releases          int
	RetryAt, GiveUpAt time.Duration
}

// New returns a new candidate. Its first event must be Begin.
func New(set Settings) State { return State{set: &set} }

// Wake returns when the candidate needs a Timer event; ok is false if it needs none.
// Earlier and later Timer events do no harm.
func (s State) Wake() (at time.Duration, ok bool) {
	at = candidate.Forever
	consider := func(ts ...time.Duration) {
		for _, t := range ts {
			if t != 0 {
				at = min(at, t)
			}
		}
	}
	switch {
	case s.Phase == candidate.Campaigning:
		consider(s.QuitAt)
	case s.Phase == candidate.Standby:
		consider(s.WakeAt)
	case s.Phase.HasTree():
		consider(s.MaxAt, s.LeftoversAt, s.KillAt)
		if s.Phase != candidate.Killing {
			consider(s.KillBy)
		}
		if s.Phase.Running() {
			consider(s.CheckAt)
		}
		if !s.Outcome.Voids() {
			consider(s.StopBy)
		}
		if !s.Taken && !s.Renewing {
			consider(s.RenewAt)
			if !s.Listening && !s.NoCalls {
				consider(s.ListenAt)
			}
		}
	case s.Phase == candidate.Releasing:
		consider(s.RetryAt, s.GiveUpAt)
	}
	return at, at != candidate.Forever
}

// Leads reports whether the lease is held for a tree, and not lost.
func (s State) Leads() bool { return s.Phase.HasTree() && !s.Outcome.Voids() }
