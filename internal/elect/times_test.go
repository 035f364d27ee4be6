package elect

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// courses are longer histories, in which earlier events matter.
var courses = []struct {
	name   string
	set    func(*Settings)
	events []Event
}{
	{"pauses vary", func(s *Settings) { s.Wait, s.Jitter = at(60), 0.5 }, []Event{
		event(Begin, 0), event(NoAnswer, 5).because(unheard), event(Timer, 10.625), denied(lease.Held, 10.7).remaining(20), event(CannotWake, 10.8),
	}},
	{"a leader's pauses are never longer", func(s *Settings) { s.Jitter = 0.5 }, append(slices.Clip(leading),
		event(Timer, 10), event(NoAnswer, 12), event(NoAnswer, 12.1), event(TreeGone, 13), event(ReleaseFailed, 15), event(Timer, 15.5))},
	{"calls that break are asked for ever more rarely", nil, append(slices.Clip(leading),
		event(Broken, 0.5), event(Renewed, 0.51).sent(0.5), event(Timer, 0.7), event(Broken, 0.75), event(Renewed, 0.76).sent(0.75), event(Timer, 1.2),
		event(Broken, 1.3), event(NoAnswer, 3.3), event(NoAnswer, 5.3), event(Renewed, 5.5).sent(5.4), event(Broken, 7), event(Renewed, 7.01).sent(7),
		event(Timer, 7.2), event(Broken, 90))},
	{"calls are not asked for while a renewal is on its way", nil, []Event{
		event(Begin, 0), granted, event(ClockSet, 0.02), event(Timer, 0.2), event(Renewed, 0.3).sent(0.02), event(CannotWake, 0.31), event(Timer, 10.02), event(Renewed, 10.1).sent(10.02),
	}},
	{"an error that is over is not the reason", nil, append(slices.Clip(leading),
		event(Timer, 10), event(NoAnswer, 12).because(unheard), event(Renewed, 12.1).sent(12), event(Timer, 33.195))},
	{"an error before the grant is not the reason", waits(at(60)), []Event{
		event(Begin, 0), event(NoAnswer, 1).because(unheard), event(Timer, 6), event(Granted, 6.1).sent(6), event(Timer, 27.195),
	}},
	{"the first reason stays", nil, append(slices.Clip(leading),
		event(Timer, 10), event(NoAnswer, 12).because(unheard), event(NoAnswer, 14).because(refused), event(Timer, 21.195), event(NoAnswer, 23).because(rights), event(LeaseLost, 24).because(lease.ErrLost))},
	{"a loss has a reason", nil, append(slices.Clip(leading), event(Timer, 10), event(LeaseLost, 10.1).because(lease.ErrLost))},
	{"a renewal counts until stop-by", nil, append(slices.Clip(leading), event(Timer, 10), event(NoAnswer, 12), event(NoAnswer, 20.5), event(Timer, 20.6))},
	{"it rejoins, later each time", rejoins, append(slices.Clip(lost),
		event(TreeGone, 11), event(Released, 11.1), event(Timer, 16.1), event(Granted, 16.2).sent(16.1), event(LeaseLost, 16.3), event(TreeGone, 16.4), event(Released, 16.5),
		event(Timer, 26.5), event(Granted, 26.6).sent(26.5), event(LeaseLost, 26.7), event(TreeGone, 26.8), event(Released, 26.9),
		event(Timer, 46.9), event(Granted, 47).sent(46.9), event(LeaseLost, 107.1), event(TreeGone, 107.2), event(Released, 107.3))},
	{"it rejoins after two TTLs as after the first loss", rejoins, append(slices.Clip(lost),
		event(TreeGone, 11), event(Released, 11.1), event(Timer, 16.1), event(Granted, 16.2).sent(16.1), event(LeaseLost, 76.2), event(TreeGone, 76.3), event(Released, 76.4))},
	{"an answer ends a row of refusals", nil, append(slices.Clip(refusedTwice),
		denied(lease.Settling, 1.03).remaining(0.3), event(Timer, 1.33), event(NoAnswer, 1.34).because(refused), event(Timer, 1.84), event(NoAnswer, 1.85).because(unheard),
		event(Timer, 2.35), event(NoAnswer, 2.36).because(refused), event(Timer, 2.86), event(NoAnswer, 2.87).because(refused))},
	{"refusals count anew after an answer", nil, append(slices.Clip(refusedTwice),
		denied(lease.Settling, 1.03).remaining(0.3), event(Timer, 1.33), event(NoAnswer, 1.34).because(refused), event(Timer, 1.84), event(NoAnswer, 1.85).because(refused))},
	{"refusals count anew after a clock that differs", func(s *Settings) { s.OncePer = true }, append(slices.Clip(refusedTwice),
		denied(lease.ClockDiffers, 1.03).tick(1000), event(NoAnswer, 1.34).because(refused), event(Timer, 1.84), event(NoAnswer, 1.85).because(refused))},
	{"a standby whose command has ended does not stand by again", waits(at(60)), append(slices.Clip(leading), event(TreeGone, 5), event(Released, 5.1))},
	{"a second loss soon after the first", rejoins, []Event{
		event(Begin, 100), event(Granted, 100.1).sent(100), event(LeaseLost, 100.2), event(TreeGone, 100.3), event(Released, 100.4),
		event(Timer, 105.4), event(Granted, 105.5).sent(105.4), event(LeaseLost, 105.6), event(TreeGone, 105.7), event(Released, 105.8),
	}},
	{"exactly two TTLs are not long", rejoins, append(slices.Clip(lost),
		event(TreeGone, 11), event(Released, 11.1), event(Timer, 16.1), event(Granted, 16.2).sent(16.1), event(LeaseLost, 16.3), event(TreeGone, 16.4), event(Released, 76.2))},
	{"a tree that is gone at kill-by is too late", nil, append(slices.Clip(leading), event(TreeGone, 28.695))},
	{"the holder is called ahead of the end, and no later", waits(at(60)), []Event{
		event(Begin, 0), denied(lease.Held, 1).remaining(0.35), event(Woke, 1.1), denied(lease.Held, 1.2).remaining(0.351), event(Woke, 1.21), denied(lease.Held, 1.3).remaining(0),
	}},
	{"a call is asked for as soon as its pause is over", nil, append(slices.Clip(leading), event(Broken, 0.5), event(Renewed, 0.7).sent(0.5))},
	{"a connection that has lasted a second was worth it", nil, append(slices.Clip(leading),
		event(Broken, 0.5), event(Renewed, 0.6).sent(0.5), event(Timer, 0.7), event(Broken, 1.7), event(Renewed, 1.71).sent(1.7), event(Timer, 2.1), event(Broken, 3.2))},
	{"a long settling is asked about soon, and followed for a TTL", nil, []Event{
		event(Begin, 0), denied(lease.Settling, 0.1).remaining(29.5), event(Timer, 0.5), denied(lease.Settling, 0.6).remaining(29), event(Timer, 29.6), denied(lease.Settling, 29.7).remaining(20),
	}},
	{"an answer that is lost while a key settles is asked for again", nil, []Event{event(Begin, 0), denied(lease.Settling, 0.1).remaining(20), event(Timer, 0.5), event(NoAnswer, 2.5), event(Timer, 6), denied(lease.Held, 6.1).remaining(20)}},
	{"a standby follows it for longer", waits(at(60)), []Event{
		event(Begin, 0), denied(lease.Settling, 0.1).remaining(40), event(Timer, 0.5), denied(lease.Settling, 0.6).remaining(39.5), event(Woke, 0.7), denied(lease.Settling, 0.8).remaining(39.3),
	}},
	{"the tick is that of the first answer: settling", ticks, []Event{event(Begin, 0), denied(lease.Settling, 0.1).remaining(0.3).tick(1000), event(Timer, 0.4), denied(lease.Held, 0.5).remaining(20).tick(2000), event(Woke, 1)}},
	{"the tick is that of the first answer: paused", ticks, []Event{event(Begin, 0), denied(lease.Paused, 0.1).remaining(30).tick(1000), event(Woke, 0.4)}},
	{"without --rejoin a loss is the end", nil, append(slices.Clip(lost), event(TreeGone, 11), event(Released, 11.1))},
	{"with --rejoin a command that ends by itself is the end", rejoins, append(slices.Clip(leading), event(TreeGone, 5), event(Released, 5.1))},
	{"another signal right after an order belongs to it, and is passed on", nil, append(slices.Clip(leading), event(Order, 5).signal(15), event(Order, 5.05).signal(2))},
	{"the last attempts are short", waits(at(5)), append(slices.Clip(standby), event(Woke, 4.9), denied(lease.Held, 4.95).remaining(20), event(Timer, 5))},
	{"orders while a grant is given back", waits(at(60)), []Event{
		event(Begin, 0), event(Granted, 21.2), event(Order, 21.3).signal(15), event(Order, 21.35).signal(15), event(Timer, 22), event(Order, 22.1).signal(15),
	}},
	{"an order while a grant is given back ends the wait", waits(at(60)), []Event{
		event(Begin, 0), event(Granted, 21.2), event(PassOn, 21.25).signal(10), event(Order, 21.3).signal(2), event(Released, 21.4),
	}},
	{"a wait that is over while a grant is given back", waits(at(22)), []Event{event(Begin, 0), event(Granted, 21.2), event(Released, 22)}},
	{"the record of a tick is worth the rest of the lease", func(s *Settings) { s.OncePer = true }, append(slices.Clip(leading),
		event(TreeGone, 5), event(ReleaseFailed, 7), event(Timer, 7.5), event(ReleaseFailed, 29), event(Timer, 29.19), event(ReleaseFailed, 29.195))},
	{"a guard that dies before a report", nil, append(slices.Clip(leading[:2]), event(TreeGone, 0.02).because(unheard), event(Released, 0.1))},
	{"the check of a candidate that stands by ends with its wait", checkedFor(at(5)), []Event{
		event(Begin, 0), event(MayNotLead, 1), event(Timer, 5), event(MayNotLead, 5.2),
	}},
	{"the check of a candidate that stands by for ever has its time", checkedFor(candidate.Forever), []Event{event(Begin, 0), event(MayNotLead, 1), event(Timer, 6)}},
	{"a wake-up is passed on once", checkedFor(at(60)), []Event{
		event(Begin, 0), event(MayLead, 0.1), denied(lease.Held, 0.2).remaining(20), event(Woke, 1), event(MayNotLead, 1.1), event(Timer, 6.1), event(MayNotLead, 6.2),
	}},
	{"a tree that is killed by kill-by", killAfter(at(0)), append(slices.Clip(leading), event(Timer, 28.695), event(TreeGone, 28.7))},
}

func TestOutage(t *testing.T) {
	if got, want := settings().Outage(), at(8.695); got != want { // from 10 to the attempt at 19.195, minus a pause
		t.Errorf("%s, want %s", got, want)
	}
}

// The table has the actions; testdata/times.txt has their times, durations and arguments,
// for the courses, and for each row of the table until the end if only time passes.
func TestTimes(t *testing.T) {
	const name = "testdata/times.txt"
	var got strings.Builder
	step := func(s State, e Event) State {
		to, actions := Step(s, e)
		fmt.Fprintf(&got, "%s: %s | %s | %s%s\n", e.At, s, e, to, inFull(to, actions))
		return to
	}
	begin := func(title string, change func(*Settings)) State {
		got.WriteString(title + "\n")
		set := settings()
		if change != nil {
			change(&set)
		}
		return New(set)
	}
	for _, c := range courses {
		s := begin("\n"+c.name, c.set)
		for _, e := range c.events {
			s = step(s, e)
		}
	}
	for _, row := range table {
		s := begin("", row.set)
		for _, e := range row.given {
			s, _ = Step(s, e)
		}
		e := row.event
		for range 3 {
			s = step(s, e)
			next, ok := s.Wake()
			if !ok {
				break
			}
			e = Event{Kind: Timer, At: max(next, e.At)}
		}
	}
	if *update {
		must.Succeed(t, os.WriteFile(name, []byte(got.String()), 0o644))
		return
	}
	want := must.Read(t, name)
	have, had := strings.Split(got.String(), "\n"), strings.Split(want, "\n")
	if !slices.Equal(have, had) {
		i := 0
		for i < min(len(have), len(had)) && have[i] == had[i] {
			i++
		}
		t.Errorf("%s, line %d:\n got %s\nwant %s\nif that is right, run this test with -update", name, i+1, lineOf(have, i), lineOf(had, i))
	}
}

// lineOf is the i-th line, "" after the last one.
func lineOf(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// inFull shows the actions with their arguments, and the visible part of the state.
func inFull(s State, actions []Action) string {
	var b strings.Builder
	show := func(name string, value, zero any) {
		if value != zero {
			fmt.Fprintf(&b, "; %s %v", name, value)
		}
	}
	for _, a := range actions {
		b.WriteString("; " + actionNames[a.Kind])
		if a.Timeout != 0 {
			fmt.Fprintf(&b, " within %s", a.Timeout)
		}
		if a.KillBy != 0 {
			fmt.Fprintf(&b, ", kill-by %s", a.KillBy)
		}
		if a.StartBy != 0 {
			fmt.Fprintf(&b, ", start-by %s", a.StartBy)
		}
		if a.Kind == Release {
			fmt.Fprintf(&b, " %+v", a.Result)
		}
		if a.Fresh {
			b.WriteString(" anew")
		}
		if a.Tick != 0 {
			fmt.Fprintf(&b, " tick %d", a.Tick)
		}
	}
	show("exit", s.Exit, candidate.Exit{})
	show("left", s.Left, "")
	show("because", s.Err, nil)
	if next, ok := s.Wake(); ok {
		show("wakes at", next, nil)
	}
	return b.String()
}

// A skip reports the tick that was served.
func TestTickOfASkip(t *testing.T) {
	set := settings()
	ticks(&set)
	s, _ := Step(New(set), event(Begin, 0))
	if s, _ = Step(s, denied(lease.Served, 0.1).tick(1000)); s.Tick != 1000 || s.Outcome != candidate.Skipped {
		t.Errorf("%s, tick %d", s, s.Tick)
	}
}
