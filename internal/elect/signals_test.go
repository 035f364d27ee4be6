package elect

import (
	"slices"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// Every signal in every state. While nothing runs, signals that end any program end the
// candidate. A command gets all signals, except those its terminal has already sent it.
// No signal shortens the time for which the lease is kept.
func TestSignalsAtEveryState(t *testing.T) {
	signals := []Event{
		{Kind: Order, Signal: 15},
		{Kind: Order, Signal: 2, FromTerminal: true},
		{Kind: PassOn, Signal: 1},
		{Kind: PassOn, Signal: 3, FromTerminal: true},
		{Kind: PassOn, Signal: 10},
	}
	settled := []Event{event(Begin, 0), denied(lease.Settling, 0.01).remaining(0.3)}
	for _, state := range []struct {
		name  string
		given []Event
		then  Event // shows the effect of the signal
		want  [5]string
	}{
		{"campaigning", leading[:1], denied(lease.Held, 0.1).remaining(20), [5]string{
			"Done(ordered) | ", "Done(ordered) | ", "Done(ordered) | ", "Done(ordered) | ", "Standby(denied) | wait",
		}},
		{"settling", settled, Event{}, [5]string{
			"Done(ordered) | pass", "Done(ordered) | pass", "Done(ordered) | pass", "Done(ordered) | pass", "Standby(denied) | ",
		}},
		{"standby", standby, Event{}, [5]string{
			"Done(ordered) | pass", "Done(ordered) | pass", "Done(ordered) | pass", "Done(ordered) | pass", "Standby(denied) | ",
		}},
		{"starting", leading[:2], Event{}, [5]string{
			"Stopping(ordered) | signal 15", "Stopping(ordered) | signal 2", "Starting | signal 1", "Starting | ", "Starting | signal 10",
		}},
		{"leading", leading, Event{}, [5]string{
			"Stopping(ordered) | signal 15", "Leading | ", "Leading | signal 1", "Leading | ", "Leading | signal 10",
		}},
		{"doubtful", doubtful, Event{}, [5]string{
			"Stopping(ordered) | signal 15", "Doubtful | ", "Doubtful | signal 1", "Doubtful | ", "Doubtful | signal 10",
		}},
		{"ended, descendants live", append(slices.Clip(leading), event(CommandEnded, 5)), Event{}, [5]string{
			"Stopping(ordered) | signal 15", "Stopping(ordered) | signal 2", "Leading | signal 1", "Leading | signal 3", "Leading | signal 10",
		}},
		{"stopping by order", append(slices.Clip(ordered), event(Timer, 5.1)), Event{}, [5]string{
			"Killing(ordered) | kill", "Stopping(ordered) | ", "Stopping(ordered) | signal 1", "Stopping(ordered) | ", "Stopping(ordered) | signal 10",
		}},
		{"stopping, lost", lost, Event{}, [5]string{
			"Stopping(lost) | ", "Stopping(lost) | ", "Stopping(lost) | signal 1", "Stopping(lost) | ", "Stopping(lost) | signal 10",
		}},
		{"killing", killing, Event{}, [5]string{
			"Killing(ordered) | kill", "Killing(ordered) | kill", "Killing(ordered) | signal 1, kill", "Killing(ordered) | kill", "Killing(ordered) | signal 10, kill",
		}},
		{"releasing", append(slices.Clip(leading), event(TreeGone, 5)), Event{}, [5]string{
			"Releasing(exited) | ", "Releasing(exited) | ", "Releasing(exited) | ", "Releasing(exited) | ", "Releasing(exited) | ",
		}},
	} {
		for i, e := range signals {
			set := settings()
			set.Wait = at(60)
			w := newWatch(t, set)
			for _, given := range state.given {
				w.step(given)
			}
			e.At = state.given[len(state.given)-1].At
			line := w.step(e)
			if state.then.Kind != 0 {
				line = w.step(state.then)
			}
			if got := strings.SplitN(line, " | ", 3)[2]; got != state.want[i] {
				t.Errorf("%s, signal %d: %s, want %s", state.name, e.Signal, line, state.want[i])
			}
		}
	}
}

// The signals to pass on that end a standby: those that end a program by default.
func TestSignalsThatEnd(t *testing.T) {
	for signal := 1; signal <= 64; signal++ {
		set := settings()
		set.Wait = at(60)
		w := newWatch(t, set)
		for _, e := range standby {
			w.step(e)
		}
		w.step(event(PassOn, 3).signal(signal))
		want := slices.Contains([]int{1, 3, 14, 30}, signal) || signal >= 32
		if got := w.state.Phase == candidate.Done; got != want {
			t.Errorf("signal %d: %s", signal, w.state)
		}
	}
}

// A candidate leads while there is a tree and the lease is not void.
func TestLeads(t *testing.T) {
	for s, want := range map[*State]bool{
		{Phase: candidate.Standby}:                              false,
		{Phase: candidate.Starting}:                             true,
		{Phase: candidate.Stopping, Outcome: candidate.Ordered}: true,
		{Phase: candidate.Stopping, Outcome: candidate.Expired}: false,
		{Phase: candidate.Releasing, Outcome: candidate.Exited}: false,
	} {
		if got := s.Leads(); got != want {
			t.Errorf("%s: %t", s, got)
		}
	}
}
