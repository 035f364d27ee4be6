package elect

import (
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
)

// Orders are the orders to stop that a run has received.
type Orders struct {
	Count, Signal int           // Signal is that of the first
	At            time.Duration // when the last one came
}

// take counts an order, unless it belongs to the last one.
func (o *Orders) take(signal int, now time.Duration) bool {
	if o.Count > 0 && now < o.At+sameOrder {
		return false
	}
	o.At = now
	if o.Count++; o.Count == 1 {
		o.Signal = signal
	}
	return true
}

// signalled handles a signal in any phase. One to pass on goes to the command; while nothing
// runs, one that ends a program by default is an order to stop. What the terminal sent is not
// passed on, since the command has received it, too, maybe even before its start was reported.
func (m *machine) signalled(e Event) {
	tree, order := m.Phase.HasTree(), e.Kind == Order
	switch {
	case tree && e.FromTerminal && !m.Ended && (m.Ran || !order):
	case tree && !order:
		m.do(Action{Kind: Signal, Signal: e.Signal})
	case order, m.Phase.Waiting() && ends(e.Signal):
		switch {
		case m.Orders.take(e.Signal, m.now):
			m.ordered(m.Orders.Count > 1)
		case tree && e.Signal != m.Orders.Signal && !m.set.StopSignalNamed:
			m.do(Action{Kind: Signal, Signal: e.Signal})
		}
	}
}

// ends reports whether a signal to pass on ends a program by default.
func ends(signal int) bool {
	const hangup, quit, alarm, power, realTime = 1, 3, 14, 30, 32 // from realTime on there are no others
	return signal == hangup || signal == quit || signal == alarm || signal == power || signal >= realTime
}

// ordered carries out an order to stop. Another one does not wait for what the first waits for:
// an answer to the request for the lease, the end of the command, the release.
func (m *machine) ordered(again bool) {
	switch {
	case m.Phase == candidate.Campaigning && !again:
		m.QuitAt = m.now + quitPatience
	case m.Phase.Waiting():
		m.passOn()
		m.finish(candidate.Ordered)
	case m.Phase.Running():
		m.stop(candidate.Ordered, m.set.KillAfter)
	case m.Phase.HasTree() && again:
		m.kill()
	case m.Phase == candidate.Releasing:
		if m.Outcome == candidate.Unavailable { // the grant came too late, and nothing ran
			m.Outcome = candidate.Ordered
		}
		if again {
			m.afterRelease()
		}
	}
}
