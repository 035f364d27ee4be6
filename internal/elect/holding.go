package elect

import (
	"slices"
	"time"
)

// holding handles events while a tree may be alive.
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
		m.startFailed(e.Err)
		return
	case Renewed:
		m.renewed(e)
	case NoAnswer:
		m.unanswered(e.Err)
	case Pinged:
		m.pinged()
	case Broken:
		m.broken()
	case ClockSet: // this process may have stood still: ask the store
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
		m.timer()
	}
	if m.Phase == Killing {
		m.kill()
	}
}

func (m *machine) timer() {
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

// startFailed releases the lease. If only a hand-over had ended the run before, no signal was
// received that could be its status.
func (m *machine) startFailed(err error) {
	m.Tree, m.Err = false, err
	if m.Outcome == Ordered && m.Orders == 0 {
		m.Outcome = NotStarted
	}
	m.release(m.orElse(NotStarted))
}

func (m *machine) renew() {
	timeout := m.set.Attempt
	if !m.Outcome.Voids() { // the answer counts until stop-by
		timeout = min(timeout, m.StopBy-m.now)
	}
	m.InFlight, m.Outdated = true, false
	l := m.Lease
	l.Offered = m.Offering
	m.do(Action{Kind: Renew, Timeout: timeout, Lease: l})
}

func (m *machine) renewed(e Event) {
	m.InFlight = false
	if !m.keeping() {
		return
	}
	if m.Outcome == Expired { // too late for the command, but it keeps others out until the tree is gone
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
	m.ListenAt, m.ListenPause = 0, listenDelay // a store that does not answer cannot call
	if m.Phase == Leading {                    // perhaps only the connection was lost
		m.Phase = Doubtful
		m.renew()
	}
}

// pinged answers a call with a renewal, and listens again, but only after the answer to a
// renewal that is under way: until then the store may keep calling.
func (m *machine) pinged() {
	renewing := m.InFlight
	m.Listening, m.ListenAt = false, m.now
	m.signOfLife()
	if !renewing {
		m.listenAgain()
	}
}

// signOfLife renews at once. The answer to a renewal that is under way may be older than
// the call, so another renewal follows it.
func (m *machine) signOfLife() {
	switch {
	case !m.keeping():
	case m.InFlight:
		m.Outdated = true
	default:
		m.renew()
	}
}

// listen starts to listen, but only after the answer to a renewal that is under way: if
// connections are scarce, renewals come first.
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

// broken renews at once: the store may have restarted and lost the lease. Where
// connections never last, it listens less and less often.
func (m *machine) broken() {
	m.ListenPause = min(2*m.ListenPause, m.set.Renew)
	if m.now-m.ListenedAt > listenLasts {
		m.ListenPause = listenDelay
	}
	m.Listening, m.ListenAt = false, m.now+m.ListenPause
	m.signOfLife()
}

// signalled stops the command if the signal is an order to stop, and otherwise passes it
// on. A second order ends the grace. A signal from the terminal is not passed on, since
// the command has received it, too, maybe even before its start was reported.
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

// stop signals the tree once and starts the grace. A reason that voids the result wins
// over one that does not. The grace is never extended.
func (m *machine) stop(why Outcome, grace time.Duration) {
	if m.Outcome == "" || why.Voids() && !m.Outcome.Voids() {
		m.Outcome = why
	}
	killAt := after(m.now, grace)
	if why.Voids() { // renewals no longer extend it
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

// killAgain is the pause before a kill is repeated: the tree may have been stopped, or
// may have forked meanwhile.
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

// stopSignal returns the signal of the current stop.
func (m *machine) stopSignal() int {
	if m.Outcome == Ordered && !m.set.StopSignalNamed && m.Signal != 0 {
		return m.Signal
	}
	return m.set.StopSignal
}

// treeGone releases the lease. If the guard died, nobody saw the command end: it was
// killed, unless its end was reported before.
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
	switch {
	case e.Expired && !m.Outcome.Voids(): // this process stood still between a renewal and the order to extend
		m.Outcome = Expired
		if m.Err == nil {
			m.Err = errAsleep
		}
	case m.Outcome == "":
		m.Err = e.Err
	}
	m.release(m.orElse(why))
}

// orElse returns the outcome if it is set, else why.
func (m *machine) orElse(why Outcome) Outcome {
	if m.Outcome != "" {
		return m.Outcome
	}
	return why
}
