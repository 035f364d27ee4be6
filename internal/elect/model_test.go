package elect

import (
	"slices"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// place is what the elector of scripts/model.d/lease.pml is at.
type place string

const (
	asking    place = "ASKING"
	leads     place = "LEADING"
	stopping  place = "STOPPING"
	releasing place = "RELEASING"
	over      place = "ENDED"
)

// placeOf is where the model has a state. A tree that is being stopped while its lease is
// good is that of a leader there: it may end at any time.
func placeOf(s State) place {
	switch {
	case s.Phase < Starting:
		return asking
	case s.Phase < Stopping, s.Phase < Releasing && !s.Outcome.Voids():
		return leads
	case s.Phase < Releasing:
		return stopping
	case s.Phase == Releasing:
		return releasing
	}
	return over
}

type move struct {
	text     string
	from, to place
	do       []ActionKind
}

// moves are the steps of the model's elector, as lease.pml has them, and what they are here:
// from where to where, and which of these actions they make. GRANTED is passed within a step.
var moves = []move{
	{"at[i] == ASKING && !asked[i] -> ask(i, ACQUIRE)", asking, asking, []ActionKind{Acquire}},
	{"at[i] == ASKING && answer[i] == NO -> learn(i)", asking, asking, nil},
	{"at[i] == ASKING && answer[i] == YES ->", asking, asking, nil}, // to GRANTED
	{"at[i] == GRANTED && IN_TIME(i) -> start(i)", asking, leads, []ActionKind{Start}},
	{"at[i] == GRANTED -> at[i] = RELEASING", asking, releasing, []ActionKind{Release}},
	{"at[i] == LEADING && !asked[i] && age[i] <= STOP_BY -> ask(i, RENEW)", leads, leads, []ActionKind{Renew}},
	{"at[i] == LEADING && answer[i] == YES ->", leads, leads, []ActionKind{Extend}},
	{"at[i] == LEADING -> at[i] = STOPPING", leads, stopping, nil},
	{"at[i] == STOPPING && MAY_END(i) -> at[i] = RELEASING", stopping, releasing, []ActionKind{Release}},
	{"at[i] == RELEASING && !asked[i] -> ask(i, RELEASE)", releasing, over, []ActionKind{Release}},
	{"at[i] == ENDED && !tree[i] && term[i] + 1 < RUNS -> give_up(i)", over, asking, nil},
}

// modelled reports whether a step is one of the model, or several of them at once, such as
// an end that leads from LEADING by STOPPING to RELEASING; and whether it goes beyond it: the
// renewals of a holder whose lease is over for its command, which only keep others out until the
// tree is gone. The model has none.
func modelled(from State, e Event, to State, actions []Action) (ok, beyond bool) {
	var asks []Action
	for _, a := range actions {
		switch a.Kind {
		case Renew:
			if placeOf(to) == stopping {
				beyond = true
				continue
			}
			fallthrough
		case Start: // IN_TIME, and age[i] <= STOP_BY
			if e.At >= to.StopBy {
				return false, false
			}
		case Release: // MAY_END
			if to.Tree {
				return false, false
			}
		case Acquire, Extend:
		default:
			continue
		}
		asks = append(asks, a)
	}
	return path(placeOf(from), placeOf(to), asks, 0), beyond
}

// path reports whether moves lead from one place to another and make these actions, each
// once; other moves make none.
func path(from, to place, asks []Action, depth int) bool {
	if from == to && len(asks) == 0 {
		return true
	}
	if depth == 4 {
		return false
	}
	for _, m := range moves {
		if m.from != from {
			continue
		}
		if len(asks) > 0 && slices.Contains(m.do, asks[0].Kind) && path(m.to, to, asks[1:], depth+1) {
			return true
		}
		// A release that has been asked for is under way until it is answered.
		if passed := m.from != m.to && (len(m.do) == 0 || m.do[0] == Release); passed && path(m.to, to, asks, depth+1) {
			return true
		}
	}
	// A candidate that leaves does nothing any more, which the model's may do at any time.
	return from == asking && to == over && len(asks) == 0
}

// Each row of the table is a way of the model's elector, and the model has no other moves
// than these.
func TestModel(t *testing.T) {
	text := must.Read(t, "../../scripts/model.d/lease.pml")
	_, elector, _ := strings.Cut(text, "proctype elector(byte i) {")
	elector, _, _ = strings.Cut(elector, "\n}\n")
	n := 0
	for line := range strings.Lines(elector) {
		if strings.HasPrefix(strings.TrimSpace(line), ":: atomic { at[i] ==") && !strings.Contains(line, "DEAD") {
			n++
			if !slices.ContainsFunc(moves, func(m move) bool { return strings.Contains(line, m.text) }) {
				t.Errorf("lease.pml has a move that is not among those here: %s", line)
			}
		}
	}
	if n != len(moves) {
		t.Errorf("lease.pml has %d moves, want %d", n, len(moves))
	}
	beyond := 0
	for _, row := range table {
		set := settings()
		if row.set != nil {
			row.set(&set)
		}
		from := New(set)
		for _, e := range row.given {
			from, _ = Step(from, e)
		}
		to, actions := Step(from, row.event)
		ok, more := modelled(from, row.event, to, actions)
		if !ok {
			t.Errorf("%s: %s to %s is no way of the model", row.want, placeOf(from), placeOf(to))
		}
		if more {
			beyond++
		}
	}
	t.Logf("%d of %d rows go beyond the model", beyond, len(table))
	if beyond > len(table)/10 {
		t.Errorf("%d of %d rows go beyond the model", beyond, len(table))
	}
}
