package elect

import (
	"errors"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// Step handles one event. The clock counts first: after a sleep, an expired tree is
// killed before the event is handled. The only exception is the end of the tree before
// kill-by, since the command then ended under the lease.
func Step(s State, e Event) (State, []Action) {
	m := machine{State: s, now: e.At}
	if e.Kind != TreeGone || e.At >= s.KillBy {
		m.deadlines()
	}
	switch {
	case e.Kind == Order || e.Kind == PassOn:
		m.signalled(e)
	case m.Phase == candidate.Campaigning:
		m.campaigning(e)
	case m.Phase == candidate.Standby:
		m.standby(e)
	case m.Phase == candidate.Checking:
		m.checking(e)
	case m.Phase.HasTree():
		m.holding(e)
	case m.Phase == candidate.Releasing:
		m.releasing(e)
	}
	if m.Phase == candidate.Killing { // whatever the event
		m.kill()
	}
	return m.State, m.actions
}

var errClock = errors.New("the store's clock fits neither the tick by this host's clock nor the one by its own")

var errAsleep = errors.New("leaderrun itself was stopped, starved, or asleep with the machine")

// machine is one step in progress.
type machine struct {
	State
	now     time.Duration
	actions []Action
}

func (m *machine) do(a Action) { m.actions = append(m.actions, a) }

// over reports whether t is set and has come.
func (m *machine) over(t time.Duration) bool { return t != 0 && m.now >= t }

// deadlines handles everything that depends only on the clock.
func (m *machine) deadlines() {
	if !m.Phase.HasTree() {
		return
	}
	if !m.Outcome.Voids() && m.now >= m.StopBy {
		if m.Err == nil { // no renewal failed: none was sent in time
			m.Err = errAsleep
		}
		m.stop(candidate.Expired, m.set.Grace)
	}
	if m.Phase.Running() && m.over(m.MaxAt) {
		m.stop(candidate.MaxRuntime, m.set.KillAfter)
	}
	if m.Phase.Running() && m.over(m.LeftoversAt) {
		m.stop(candidate.LeftBehind, m.set.KillAfter)
	}
	if m.Phase == candidate.Stopping && (m.now >= m.KillAt || m.now >= m.KillBy) {
		m.kill()
	}
}

func (m *machine) campaigning(e Event) {
	switch e.Kind {
	case Begin:
		m.Began, m.WaitUntil = m.now, after(m.now, m.set.Wait)
		m.attempt()
	case Granted:
		m.granted(e)
	case Denied, NoAnswer:
		switch {
		case m.Orders.Count > 0:
			m.finish(candidate.Ordered)
		case e.Kind == NoAnswer:
			m.unavailable(e.Err)
		default:
			m.denied(e.Denial)
		}
	case ClockSet:
		m.Outdated = true
	case Timer:
		if m.over(m.QuitAt) {
			m.finish(candidate.Ordered)
		}
	}
}

// denied stands by, if that makes sense, until the key may have become free.
func (m *machine) denied(d lease.Condition) {
	if d.Why == lease.ClockDiffers {
		m.clockDiffers(d)
		return
	}
	m.Denial, m.Err = d, nil
	m.learnTick(d.Tick)
	switch d.Why {
	case lease.Served, lease.GivenUp:
		m.finish(candidate.Skipped)
	case lease.Settling:
		m.settling(d.Remaining)
	case lease.Paused: // the wake-up at its end may get lost
		m.awaitWakeup(candidate.Paused, m.WaitUntil, min(after(d.Remaining, time.Millisecond), m.set.varied(m.set.TTL)))
	default:
		m.awaitWakeup(candidate.Denied, m.WaitUntil, m.untilNext(d.Remaining))
	}
}

// granted starts the command, unless the grant came too late or the candidate was ordered
// to stop.
func (m *machine) granted(e Event) {
	m.Err = nil
	m.hold(e)
	if m.Outdated {
		m.RenewAt = m.now
	}
	m.Candidacy = m.next()
	switch {
	case m.Orders.Count > 0:
		m.release(candidate.Ordered)
	case m.now >= m.StopBy:
		m.Err = errors.New("the lease was granted too late to be used")
		m.release(candidate.Unavailable)
	case m.Tick != 0 && m.Tick != e.Lease.Tick: // granted to a late duplicate of a request without a tick
		m.Err = errors.New("the lease was granted for another tick")
		m.release(candidate.Unavailable)
	default:
		m.learnTick(e.Lease.Tick)
		m.AcquiredAt = m.now
		m.ListenAt, m.ListenPause = m.now+listenDelay, listenDelay
		if m.set.Checked {
			m.CheckAt = m.now + m.set.Renew
		}
		m.Phase, m.Outcome = candidate.Starting, ""
		m.do(Action{Kind: Start, StartBy: m.StopBy, KillBy: m.KillBy, Lease: m.Lease})
	}
}

// hold takes over the lease from a positive answer. Every instant counts from just before
// the request was sent.
func (m *machine) hold(e Event) {
	m.Lease = e.Lease
	m.StopBy, m.KillBy, m.ValidUntil = m.set.StopBy(e.Sent), m.set.KillBy(e.Sent), m.set.ValidUntil(e.Sent)
	m.RenewAt = e.Sent + m.set.Renew
}

// learnTick makes the tick of the first answer the candidate's tick.
func (m *machine) learnTick(tick int64) {
	if m.set.OncePer && m.Tick == 0 {
		m.Tick = tick
	}
}

// clockDiffers asks again at once, with the tick of the store's time. A store cannot give
// this answer twice, since that tick does not depend on this host's clock.
func (m *machine) clockDiffers(d lease.Condition) {
	chosen := m.Tick
	m.learnTick(d.Tick)
	if m.Tick == chosen {
		m.unavailable(errClock)
		return
	}
	m.Refused = 0
	m.acquire()
}

// untilNext returns the pause of a standby that knows how long the lease still lasts: to
// callAhead before its end, when the holder is called, and then to its end. The store
// rounds down.
func (m *machine) untilNext(remaining time.Duration) time.Duration {
	if remaining > callAhead {
		return remaining - callAhead
	}
	return after(remaining, time.Millisecond)
}

// settling waits while the store waits for a living holder, even without --wait. A settling that
// outlasts settlePatience counts as held.
func (m *machine) settling(remaining time.Duration) {
	m.Refused = 0
	pause := remaining
	if m.SettleUntil == 0 {
		m.SettleUntil = m.now + m.set.settlePatience()
		pause = min(pause, settleMoment)
	}
	until := m.WaitUntil
	if m.now+remaining <= m.SettleUntil {
		until = max(until, m.SettleUntil)
	}
	if pause > settleMoment {
		m.awaitWakeup(candidate.Denied, until, pause)
	} else {
		m.standBy(candidate.Denied, until, pause)
	}
}

// unavailable tries again as long as the candidate stands by, and for a moment without
// --wait.
func (m *machine) unavailable(err error) {
	m.Denial, m.Err = lease.Condition{}, err
	if errors.Is(err, lease.ErrReleased) {
		m.Retired = true
	}
	var store *lease.StoreError
	if !errors.As(err, &store) {
		store = &lease.StoreError{}
	}
	if store.Permanent {
		m.finish(candidate.Unavailable)
		return
	}
	m.Refused++
	if !store.Refused {
		m.Refused = 0
	}
	switch {
	case m.WaitUntil > m.Began:
		m.standBy(candidate.Unavailable, m.WaitUntil, m.set.varied(m.set.Retry))
	case m.Refused >= refusedTries:
		m.standBy(candidate.Unavailable, m.now, 0)
	default:
		m.standBy(candidate.Unavailable, max(m.patience(), m.SettleUntil), m.set.varied(m.set.Pause))
	}
}

// patience returns how long the candidate asks a store that does not answer: as long as
// it stands by, or for a moment without --wait.
func (m *machine) patience() time.Duration {
	if m.WaitUntil > m.Began {
		return m.WaitUntil
	}
	return m.Began + m.set.FirstAttempt
}

// standBy waits for at most pause, and makes the last attempt at the limit of --wait.
func (m *machine) standBy(why candidate.Outcome, until, pause time.Duration) {
	if m.now >= until {
		m.finish(why)
		return
	}
	m.Phase, m.Outcome = candidate.Standby, why
	m.WakeAt = min(after(m.now, pause), until)
}

// awaitWakeup is standBy until the store wakes the candidate.
func (m *machine) awaitWakeup(why candidate.Outcome, until, pause time.Duration) {
	m.standBy(why, until, pause)
	if m.Phase == candidate.Standby {
		m.do(Action{Kind: Wait, Timeout: m.WakeAt - m.now})
	}
}

func (m *machine) standby(e Event) {
	switch e.Kind {
	case Woke:
		m.Woken = m.now < m.WakeAt // otherwise the pause was over anyway
		m.attempt()
	case ClockSet:
		m.attempt()
	case CannotWake, NoAnswer:
		m.WakeAt = min(m.WakeAt, after(m.now, m.set.varied(m.set.Retry)))
	case Timer:
		if m.now >= m.WakeAt {
			m.attempt()
		}
	}
}

func (m *machine) acquire() {
	timeout := m.set.Attempt
	if !m.Asked {
		timeout = m.set.FirstAttempt
		if m.set.Wait == 0 {
			m.Began, m.WaitUntil = m.now, m.now
		}
	}
	if m.WaitUntil != candidate.Forever {
		limit := max(m.patience(), m.SettleUntil)
		timeout = min(timeout, max(limit-m.now, 0)+lastAttempt)
	}
	m.Phase, m.Asked, m.Outdated, m.Woken = candidate.Campaigning, true, false, false
	m.do(Action{Kind: Acquire, Timeout: timeout, Fresh: m.Retired, Waits: m.now < m.WaitUntil, Tick: m.Tick})
	m.Retired = false
}

// releasing waits for the release. Its answer does not change the outcome.
func (m *machine) releasing(e Event) {
	switch e.Kind {
	case Released:
		m.afterRelease()
	case ReleaseFailed:
		m.releaseFailed()
	case Timer:
		switch {
		case m.over(m.RetryAt):
			m.release(m.Outcome)
		case m.over(m.GiveUpAt):
			m.releaseFailed()
		}
	}
}

func (m *machine) releaseFailed() {
	// To record a served tick it may take the whole rest of the lease.
	worth := m.set.OncePer && m.result().Success && m.now+m.set.Pause < m.ValidUntil
	if m.Releases < releaseAttempts || worth {
		m.RetryAt, m.GiveUpAt = m.now+m.set.shorter(m.set.Pause), 0
		return
	}
	m.afterRelease()
}

// release makes an attempt to release: the tree is gone, or never existed.
func (m *machine) release(why candidate.Outcome) {
	m.Phase, m.Outcome = candidate.Releasing, why
	m.Releases++
	m.RetryAt, m.GiveUpAt = 0, m.now+m.set.Attempt+m.set.Pause
	m.do(Action{Kind: Release, Timeout: m.set.Attempt, Lease: m.Lease, Result: m.result()})
}

func (m *machine) result() lease.Result {
	if m.Outcome.Voids() {
		return lease.Result{Ran: m.Ran, Exit: lease.ExitVoid, Outcome: string(m.Outcome)}
	}
	byItself := m.Outcome == candidate.Exited || m.Outcome == candidate.LeftBehind || m.Outcome == candidate.Detached
	return lease.Result{Ran: m.Ran, Success: m.Ran && byItself && m.Exit == candidate.Exit{}, Exit: m.Exit.Status(), Outcome: string(m.Outcome)}
}

// afterRelease ends the run, or begins again: with --rejoin, or if a grant came too late to be
// used while the candidate stands by.
func (m *machine) afterRelease() {
	again := m.set.Rejoin && m.Outcome.Voids() && m.Orders.Count == 0 && !m.HandedOver
	late := m.Outcome == candidate.Unavailable && m.now < m.WaitUntil && m.Orders.Count == 0
	if !again && !late {
		m.finish(m.Outcome)
		return
	}
	next := State{set: m.set, Err: m.Err, Candidacy: m.Candidacy}
	pause := m.set.Pause
	if again {
		next.Began, next.WaitUntil = m.now, candidate.Forever
		next.Backoff = min(max(m.set.Retry, 2*m.Backoff), m.set.TTL)
		if m.now-m.AcquiredAt > 2*m.set.TTL { // it led for a while: this is a new problem
			next.Backoff = m.set.Retry
		}
		pause = next.Backoff
	}
	m.State = next
	m.standBy(candidate.Unavailable, m.WaitUntil, m.set.varied(pause))
}

func (m *machine) finish(why candidate.Outcome) { m.Phase, m.Outcome = candidate.Done, why }

// after adds without overflow; Forever stays Forever.
func after(t, d time.Duration) time.Duration {
	if d >= candidate.Forever-t {
		return candidate.Forever
	}
	return t + d
}
