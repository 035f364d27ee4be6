package elect

import (
	"slices"
	"time"
)

// holding decides while a tree may be alive.
func (m *machine) holding(e Event) {
	switch e.Kind {
	case Started:
		m.Ran = true
		if m.Phase == Starting {
			m.Phase = Leading
		}
		if m.running() && m.set.MaxRuntime > 0 {
			m.MaxAt = m.now + m.set.MaxRuntime
		}
	case StartFailed:
		m.Tree, m.Err = false, e.Err
		if m.Outcome == Ordered && m.Orders == 0 { // a hand-over ended nothing: no signal makes the status
			m.Outcome = NotStarted
		}
		m.release(m.orElse(NotStarted))
		return
	case Renewed:
		m.renewed(e)
	case NoAnswer:
		m.unanswered(e.Err)
	case Pinged:
		asked := m.InFlight
		m.Listening, m.ListenAt = false, m.now
		m.signOfLife()
		if !asked { // else with the answer: until then the store may call again and again
			m.listenAgain()
		}
	case Broken:
		m.broken()
	case ClockSet: // a paused machine does not know how long it stood still, the store does
		m.signOfLife()
	case CannotWake:
		m.Listening, m.NoCalls = false, true
	case MayLead, MayNotLead:
		m.checkedAgain(e.Kind == MayLead)
	case LeaseLost:
		m.InFlight, m.Taken = false, true
		if m.Outcome != Expired {
			m.Err = e.Err
		}
		m.stop(Lost, m.set.LostGrace)
	case Order, PassOn:
		m.signalled(e)
	case CommandEnded:
		m.commandEnded(e)
	case TreeGone:
		m.treeGone(e)
		return
	case Timer:
		if m.keeping() && !m.InFlight && m.now >= m.RenewAt {
			m.renew()
		}
		if m.over(m.ListenAt) {
			m.listen()
		}
		if m.running() && m.over(m.CheckAt) {
			m.checkAgain()
		}
	}
	if m.Phase == Killing {
		m.kill()
	}
}

func (m *machine) renew() {
	timeout := m.set.Attempt
	if !m.Outcome.voids() { // the answer counts until stop-by
		timeout = min(timeout, m.StopBy-m.now)
	}
	m.InFlight, m.Dated = true, false
	l := m.Lease
	l.Offered = m.Offering
	m.do(Action{Kind: Renew, Timeout: timeout, Lease: l})
}

func (m *machine) renewed(e Event) {
	m.InFlight = false
	if !m.keeping() {
		return
	}
	if m.Outcome == Expired { // too late for the command: it only keeps others out until the tree is gone
		m.RenewAt = e.Sent + m.set.Renew
		return
	}
	m.hold(e)
	m.Err = nil
	if m.Phase == Doubtful {
		m.Phase = Leading
	}
	m.do(Action{Kind: Extend, KillBy: m.KillBy})
	if m.now >= m.ListenAt { // the store is back
		m.listen()
	}
	if m.Lease.HandOver && m.running() {
		m.HandedOver = true
		m.stop(Ordered, m.set.KillAfter)
	}
}

func (m *machine) unanswered(err error) {
	m.InFlight = false
	if !m.keeping() {
		return
	}
	m.RenewAt = m.now + m.set.shorter(m.set.DoubtPause())
	if m.Outcome != Expired {
		m.Err = err
	}
	if m.set.StopOnRenewError && m.running() {
		m.stop(Expired, m.set.Grace)
		return
	}
	m.ListenAt, m.ListenPause = 0, listenDelay // a store that does not answer does not call either
	if m.Phase == Leading {                    // perhaps nothing but the connection has died
		m.Phase = Doubtful
		m.renew()
	}
}

// signOfLife renews at once. The answer to a renewal that is on its way may be older than
// what calls for this one, which then follows it.
func (m *machine) signOfLife() {
	switch {
	case !m.keeping():
	case m.InFlight:
		m.Dated = true
	default:
		m.renew()
	}
}

// listen waits for the answer to a renewal that is on its way: the second
// connection must not be the one that is missing.
func (m *machine) listen() {
	if !m.Listening && !m.InFlight {
		m.listenAgain()
	}
}

func (m *machine) listenAgain() {
	if m.keeping() && !m.NoCalls {
		m.Listening, m.ListenedAt, m.ListenAt = true, m.now, 0
		m.do(Action{Kind: Listen})
	}
}

// broken renews at once: the store may have died, and may be back already
// without any memory of the lease. Where connections never last it listens ever
// more rarely.
func (m *machine) broken() {
	m.ListenPause = min(2*m.ListenPause, m.set.Renew)
	if m.now-m.ListenedAt > listenLasts {
		m.ListenPause = listenDelay
	}
	m.Listening, m.ListenAt = false, m.now+m.ListenPause
	m.signOfLife()
}

// signalled stops the command when that is what the signal means, and passes it
// on otherwise. A second order ends the grace. What the command has received
// from the terminal is its own affair, as if it had been run directly. It may have
// received it before its start is reported: so nothing is passed on then.
func (m *machine) signalled(e Event) {
	if e.FromTerminal && !m.Ended && (m.Ran || e.Kind == PassOn) {
		return
	}
	if e.Kind == PassOn {
		m.do(Action{Kind: Signal, Signal: e.Signal})
		return
	}
	if !m.ordered(e) {
		return
	}
	switch {
	case m.running():
		m.stop(Ordered, m.set.KillAfter)
	case m.Orders > 1:
		m.kill()
	}
}

// stop signals the tree once and starts the grace. A reason that voids the
// result wins over one that does not; a grace is never lengthened.
func (m *machine) stop(why Outcome, grace time.Duration) {
	if m.Outcome == "" || why.voids() && !m.Outcome.voids() {
		m.Outcome = why
	}
	killAt := after(m.now, grace)
	if why.voids() { // no renewal moves it any more
		killAt = min(killAt, m.KillBy)
	}
	if m.running() {
		m.Phase, m.KillAt = Stopping, killAt
		m.MaxAt, m.LeftoversAt = 0, 0
		if m.now < killAt {
			m.do(Action{Kind: Signal, Signal: m.stopSignal()})
		}
	}
	if m.Phase == Stopping {
		if m.KillAt = min(m.KillAt, killAt); m.now >= m.KillAt {
			m.kill()
		}
	}
}

// killAgain is when a kill is repeated: the tree may have been stopped, or
// forked in between.
const killAgain = time.Second

func (m *machine) kill() {
	m.Phase, m.KillAt = Killing, m.now+killAgain
	if !slices.ContainsFunc(m.actions, func(a Action) bool { return a.Kind == Kill }) {
		m.do(Action{Kind: Kill})
	}
}

func (m *machine) commandEnded(e Event) {
	m.Ran, m.Ended, m.Exit, m.Left = true, true, e.Exit, e.Left
	switch {
	case m.Phase == Stopping:
		m.do(Action{Kind: SignalRest, Signal: m.stopSignal()})
	case !m.running() || m.set.Leftovers == LeftoversWait:
	case m.set.Leftovers == LeftoversLeave:
		m.do(Action{Kind: Leave})
		m.Tree = false
		m.release(Detached)
	default:
		m.LeftoversAt = m.now + leftoversSettle
	}
}

// stopSignal is the signal that the present stop sends.
func (m *machine) stopSignal() int {
	if m.Outcome == Ordered && !m.set.StopSignalNamed && m.Signal != 0 {
		return m.Signal
	}
	return m.set.StopSignal
}

// treeGone releases. When the guard died nobody saw the command end: it was
// killed, unless its end had been reported before.
func (m *machine) treeGone(e Event) {
	m.Tree = false
	why, exit := Exited, e.Exit
	if e.Err != nil {
		const sigkill = 9
		why, exit = GuardDied, Exit{Signal: sigkill}
	}
	if e.Err == nil || !m.Ended {
		m.Exit = exit
	}
	m.Ran, m.Ended = true, true
	if m.Outcome == "" {
		m.Err = e.Err
	}
	m.release(m.orElse(why))
}

// orElse is the reason there is already, or else why.
func (m *machine) orElse(why Outcome) Outcome {
	if m.Outcome != "" {
		return m.Outcome
	}
	return why
}
