package elect

import "errors"

// attempt asks the store, but only after --yield is over and if this host may lead.
func (m *machine) attempt() {
	switch {
	case m.set.Yield > 0 && !m.Yielded:
		m.yield()
	case m.set.Checked:
		m.check()
	default:
		m.acquire()
	}
}

// yield leaves the key to others for a while and takes no wake-ups meanwhile. If the
// candidate could not ask any more after that, it ends.
func (m *machine) yield() {
	m.passOn()
	m.Phase, m.Yielded, m.WakeAt = Yielding, true, after(m.now, m.set.Yield)
	if m.WaitUntil > m.Began && m.WakeAt > m.WaitUntil {
		m.finish(m.Outcome)
	}
}

func (m *machine) yielding(e Event) {
	switch {
	case (e.Kind == Order || e.Kind == PassOn) && m.ordered(e):
		m.finish(Ordered)
	case e.Kind == Timer && m.now >= m.WakeAt:
		m.attempt()
	}
}

// check finds out whether this host may ask. A candidate that stands by has at most its
// remaining time for it, since the limit of --wait is exact.
func (m *machine) check() {
	timeout := CheckLimit
	if m.WaitUntil > m.Began && m.WaitUntil != Forever {
		timeout = min(timeout, max(m.WaitUntil-m.now, 0)+lastAttempt)
	}
	m.Phase = Checking
	m.do(Action{Kind: Check, Timeout: timeout})
}

func (m *machine) checking(e Event) {
	switch e.Kind {
	case MayLead:
		m.acquire()
	case MayNotLead:
		m.passOn()
		m.Err, m.Yielded = e.Err, false
		why := Ineligible
		if errors.Is(e.Err, ErrUnchecked) {
			why = Unchecked
		}
		m.standBy(why, m.WaitUntil, m.set.varied(m.set.Retry))
	case Order, PassOn:
		if m.ordered(e) {
			m.passOn()
			m.finish(Ordered)
		}
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

// passOn hands on a wake-up that this candidate has received but does not use now.
func (m *machine) passOn() {
	if m.Woken {
		m.Woken = false
		m.do(Action{Kind: Pass})
	}
}
