package elect

import (
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
)

// holding handles events while a tree may be alive.
func (m *machine) holding(e Event) {
	switch e.Kind {
	case Started:
		m.Ran = true
		if m.Phase == candidate.Starting {
			m.Phase = candidate.Leading
		}
		if m.Phase.Running() && m.set.MaxRuntime > 0 {
			m.MaxAt = m.now + m.set.MaxRuntime
		}
	case StartFailed:
		m.startFailed(e.Err)
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
		m.Renewing, m.Taken = false, true
		if m.Outcome != candidate.Expired {
			m.Err = e.Err
		}
		m.stop(candidate.Lost, m.set.LostGrace)
	case CommandEnded:
		m.commandEnded(e)
	case TreeGone:
		m.treeGone(e)
	case Timer:
		m.timer()
	}
}

func (m *machine) timer() {
	if !m.Taken && !m.Renewing && m.now >= m.RenewAt {
		m.renew()
	}
	if m.over(m.ListenAt) {
		m.listen()
	}
	if m.Phase.Running() && m.over(m.CheckAt) {
		m.checkAgain()
	}
}

// startFailed releases the lease. A hand-over that had ended the run before is no reason for its
// status.
func (m *machine) startFailed(err error) {
	m.Err = err
	if m.Outcome == candidate.HandedOver || m.Outcome == candidate.Unfit {
		m.Outcome = candidate.NotStarted
	}
	m.release(m.orElse(candidate.NotStarted))
}

func (m *machine) renew() {
	timeout := m.set.Attempt
	if !m.Outcome.Voids() { // the answer counts until stop-by
		timeout = min(timeout, m.StopBy-m.now)
	}
	m.Renewing, m.RenewAgain = true, false
	l := m.Lease
	l.Offered = m.Offering
	m.do(Action{Kind: Renew, Timeout: timeout, Lease: l})
}

func (m *machine) renewed(e Event) {
	m.Renewing = false
	if m.Taken {
		return
	}
	if m.Outcome == candidate.Expired { // too late for the command, but it keeps others out until the tree is gone
		m.RenewAt = e.Sent + m.set.Renew
		return
	}
	m.hold(e)
	if m.RenewAgain {
		m.RenewAt = m.now
	}
	m.Err = nil
	if m.Phase == candidate.Doubtful {
		m.Phase = candidate.Leading
	}
	m.do(Action{Kind: Extend, KillBy: m.KillBy})
	if m.now >= m.ListenAt { // the store is back
		m.listen()
	}
	if m.Lease.HandOver && m.Phase.Running() {
		m.HandedOver = true
		why := candidate.HandedOver
		if m.Offering {
			why = candidate.Unfit
		}
		m.stop(why, m.set.KillAfter)
	}
}

func (m *machine) unanswered(err error) {
	m.Renewing = false
	if m.Taken {
		return
	}
	m.RenewAt = m.now + m.set.shorter(m.set.DoubtPause())
	if m.Outcome != candidate.Expired {
		m.Err = err
	}
	if m.set.StopOnRenewError && m.Phase.Running() {
		m.stop(candidate.Expired, m.set.Grace)
		return
	}
	m.ListenAt, m.ListenPause = 0, listenDelay // a store that does not answer cannot call
	if m.Phase == candidate.Leading {          // perhaps only the connection was lost
		m.Phase = candidate.Doubtful
		m.renew()
	}
}

// pinged answers a call with a renewal, and listens again, but only after the answer to a
// renewal that is under way: until then the store may keep calling.
func (m *machine) pinged() {
	renewing := m.Renewing
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
	case m.Taken:
	case m.Renewing:
		m.RenewAgain = true
	default:
		m.renew()
	}
}

// listen starts to listen, but only after the answer to a renewal that is under way: if
// connections are scarce, renewals come first.
func (m *machine) listen() {
	if !m.Listening && !m.Renewing {
		m.listenAgain()
	}
}

func (m *machine) listenAgain() {
	if !m.Taken && !m.NoCalls {
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

// stop signals the tree once and starts the grace. A reason that voids the result wins
// over one that does not. The grace is never extended.
func (m *machine) stop(why candidate.Outcome, grace time.Duration) {
	if m.Outcome == "" || why.Voids() && !m.Outcome.Voids() {
		m.Outcome = why
	}
	killAt := after(m.now, grace)
	if why.Voids() { // renewals no longer extend it
		killAt = min(killAt, m.KillBy)
	}
	if m.Phase.Running() {
		m.Phase, m.KillAt = candidate.Stopping, killAt
		m.MaxAt, m.LeftoversAt = 0, 0
		if m.now < killAt {
			m.do(Action{Kind: Signal, Signal: m.stopSignal()})
		}
	}
	if m.Phase == candidate.Stopping {
		if m.KillAt = min(m.KillAt, killAt); m.now >= m.KillAt {
			m.kill()
		}
	}
}

// killAgain is the pause before a kill is repeated: the tree may have been stopped, or
// may have forked meanwhile.
const killAgain = time.Second

func (m *machine) kill() {
	m.Phase, m.KillAt = candidate.Killing, m.now+killAgain
	if !slices.ContainsFunc(m.actions, func(a Action) bool { return a.Kind == Kill }) {
		m.do(Action{Kind: Kill})
	}
}

func (m *machine) commandEnded(e Event) {
	m.Ran, m.Ended, m.Exit, m.Left = true, true, e.Exit, e.Left
	switch {
	case m.Phase == candidate.Stopping:
		m.do(Action{Kind: SignalRest, Signal: m.stopSignal()})
	case !m.Phase.Running() || m.set.Leftovers == candidate.LeftoversWait:
	case m.set.Leftovers == candidate.LeftoversLeave:
		m.do(Action{Kind: Leave})
		m.release(candidate.Detached)
	default:
		m.LeftoversAt = m.now + leftoversSettle
	}
}

// stopSignal returns the signal of the current stop.
func (m *machine) stopSignal() int {
	if m.Outcome == candidate.Ordered && !m.set.StopSignalNamed {
		return m.Orders.Signal
	}
	return m.set.StopSignal
}

// treeGone releases the lease. If the guard died, nobody saw the command end: it was
// killed, unless its end was reported before.
func (m *machine) treeGone(e Event) {
	why, exit := candidate.Exited, e.Exit
	if e.Err != nil {
		const sigkill = 9
		why, exit = candidate.GuardDied, candidate.Exit{Signal: sigkill}
	}
	if e.Err == nil || !m.Ended {
		m.Exit = exit
	}
	m.Ran, m.Ended = true, true
	switch {
	case e.Expired && !m.Outcome.Voids(): // this process stood still between a renewal and the order to extend
		m.Outcome = candidate.Expired
		if m.Err == nil {
			m.Err = errAsleep
		}
	case m.Outcome == "":
		m.Err = e.Err
	}
	m.release(m.orElse(why))
}

// orElse returns the outcome if it is set, else why.
func (m *machine) orElse(why candidate.Outcome) candidate.Outcome {
	if m.Outcome != "" {
		return m.Outcome
	}
	return why
}
