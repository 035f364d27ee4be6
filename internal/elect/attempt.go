package elect

import (
	"errors"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// attempt asks the store, but only if this host may lead.
func (m *machine) attempt() {
	if m.set.Checked {
		m.check()
		return
	}
	m.acquire()
}

// check finds out whether this host may ask. A candidate that stands by has at most its
// remaining time for it, since the limit of --wait is exact.
func (m *machine) check() {
	timeout := CheckLimit
	if m.WaitUntil > m.Began && m.WaitUntil != candidate.Forever {
		timeout = min(timeout, max(m.WaitUntil-m.now, 0)+lastAttempt)
	}
	m.Phase = candidate.Checking
	m.do(Action{Kind: Check, Timeout: timeout})
}

func (m *machine) checking(e Event) {
	switch e.Kind {
	case MayLead:
		m.acquire()
	case MayNotLead:
		m.passOn()
		m.Denial, m.Err = lease.Condition{}, e.Err
		why := candidate.Ineligible
		// The end of --wait says nothing about the check.
		cutByWait := errors.Is(e.Err, ErrCheckLate) && m.WaitUntil > m.Began && m.now >= m.WaitUntil
		if errors.Is(e.Err, ErrUnchecked) && !cutByWait {
			why = candidate.Unchecked
		}
		m.standBy(why, m.WaitUntil, m.set.varied(m.set.Retry))
	}
}

// checkAgain finds out whether the leader's host may still lead.
func (m *machine) checkAgain() {
	m.CheckAt = 0
	m.do(Action{Kind: Check, Timeout: CheckLimit, Beside: true})
}

// checkedAgain starts to offer the lease once the checks have failed for a TTL, and stops
// when one succeeds.
func (m *machine) checkedAgain(fit bool) {
	m.CheckAt = m.now + m.set.Renew
	switch {
	case fit:
		m.UnfitSince = 0
	case m.UnfitSince == 0:
		m.UnfitSince = m.now
	}
	m.Offering = !fit && m.now-m.UnfitSince >= m.set.TTL
}

// passOn hands on a wake-up that this candidate may have received but does not use now.
func (m *machine) passOn() {
	if m.Woken || m.Phase == candidate.Standby {
		m.Woken = false
		m.do(Action{Kind: Pass})
	}
}
