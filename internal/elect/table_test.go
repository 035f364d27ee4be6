package elect

import (
	"errors"
	"flag"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// The instants of the tests: a TTL of 30 s with the default durations gives
// renewals every 10 s, stop-by at 21.195 s, kill-by at 28.695 s.
func settings() Settings {
	return Settings{
		Timing: NewTiming(30*time.Second, 10*time.Second, 10*time.Second),
		Retry:  5 * time.Second, KillAfter: 10 * time.Second, LostGrace: time.Second, StopSignal: 15,
	}
}

func at(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds * float64(time.Second)))
}

func event(kind EventKind, seconds float64) Event { return Event{Kind: kind, At: at(seconds)} }

func denied(how lease.How, seconds float64) Event {
	return Event{Kind: Denied, At: at(seconds), Denial: lease.Condition{Why: how}}
}

func (e Event) sent(seconds float64) Event      { e.Sent = at(seconds); return e }
func (e Event) remaining(seconds float64) Event { e.Denial.Remaining = at(seconds); return e }
func (e Event) tick(t int64) Event              { e.Denial.Tick = t; return e }
func (e Event) signal(n int) Event              { e.Signal = n; return e }
func (e Event) terminal() Event                 { e.FromTerminal = true; return e }
func (e Event) expired() Event                  { e.Expired = true; return e }
func (e Event) exit(code int) Event             { e.Exit.Code = code; return e }
func (e Event) because(err error) Event         { e.Err = err; return e }

var (
	granted  = Event{Kind: Granted, At: at(0.01), Lease: lease.Lease{Token: 7, Holder: "h"}}
	leading  = []Event{event(Begin, 0), granted, event(Started, 0.02), event(Timer, 0.11)}
	doubtful = append(slices.Clip(leading), event(Timer, 10), event(NoAnswer, 12))
	ordered  = append(slices.Clip(leading), event(Order, 5).signal(15))
	killing  = append(slices.Clip(ordered), event(Timer, 10), event(Renewed, 10.1).sent(10), event(Timer, 15))
	expired  = append(slices.Clip(leading), event(Timer, 21.195))
	lost     = append(slices.Clip(leading), event(Timer, 10), event(LeaseLost, 10.1))
	standby  = []Event{event(Begin, 0), denied(lease.Held, 0.01).remaining(20).tick(1000)}
	pausedBy = []Event{event(Begin, 0), denied(lease.Paused, 0.01).remaining(3600).tick(1000)}
	handOver = Event{Kind: Renewed, At: at(10.1), Sent: at(10), Lease: lease.Lease{Token: 7, Holder: "h", HandOver: true}}
	unheard  = errors.New("no answer")
	refused  = &lease.StoreError{Op: "acquire", Err: syscall.ECONNREFUSED, Refused: true}
	rights   = &lease.StoreError{Op: "acquire", Err: errors.New("NOPERM"), Permanent: true}
)

// handedOver is a holder that was asked to hand over and whose command still runs.
var handedOver = append(slices.Clip(leading), event(Timer, 10), handOver)

// refusedTwice is a candidate at its third attempt.
var refusedTwice = []Event{event(Begin, 0), event(NoAnswer, 0.01).because(refused), event(Timer, 0.51), event(NoAnswer, 0.52).because(refused), event(Timer, 1.02)}

func waits(d time.Duration) func(*Settings)           { return func(s *Settings) { s.Wait = d } }
func ticks(s *Settings)                               { s.OncePer, s.Wait = true, at(60) }
func rejoins(s *Settings)                             { s.Rejoin = true }
func leftovers(l candidate.Leftovers) func(*Settings) { return func(s *Settings) { s.Leftovers = l } }
func killAfter(d time.Duration) func(*Settings) {
	return func(s *Settings) { s.KillAfter, s.Timing = d, NewTiming(s.TTL, s.Renew, d) }
}
func checked(s *Settings) { s.Checked = true }
func checkedFor(d time.Duration) func(*Settings) {
	return func(s *Settings) { s.Checked, s.Wait = true, d }
}

var (
	checkedStandby = []Event{event(Begin, 0), event(MayLead, 0), denied(lease.Held, 0.01).remaining(20)}
	checkedLeader  = []Event{event(Begin, 0), event(MayLead, 0), granted, event(Started, 0.02), event(Timer, 0.11), event(Timer, 10), event(Renewed, 10).sent(10)}
)

func maxRuntime(s *Settings) { s.MaxRuntime = at(3) }

// table is the state machine row by row: after these events, the next event has the
// effect that the line says. docs/design/state-machine.md shows the lines.
var table = []struct {
	set   func(*Settings)
	given []Event
	event Event
	want  string
}{
	{nil, nil, event(Begin, 0), "Campaigning | begin | Campaigning | acquire"},

	{nil, leading[:1], granted, "Campaigning | granted | Starting | start"},
	{nil, leading[:1], event(Granted, 21.195), "Campaigning | granted | Releasing(unavailable) | release"},
	{nil, []Event{event(Begin, 0), event(Order, 1).signal(15)}, event(Granted, 1.1), "Campaigning | granted | Releasing(ordered) | release"},
	{nil, leading[:1], denied(lease.Held, 0.01).remaining(20), "Campaigning | held | Done(denied) | "},
	{waits(at(60)), leading[:1], denied(lease.Held, 0.01).remaining(20), "Campaigning | held | Standby(denied) | wait"},
	{nil, leading[:1], denied(lease.Settling, 0.01).remaining(0.3), "Campaigning | settling | Standby(denied) | "},
	{nil, leading[:1], denied(lease.Settling, 0.01).remaining(20), "Campaigning | settling | Standby(denied) | "},
	{nil, leading[:1], denied(lease.Settling, 0.01).remaining(41), "Campaigning | settling | Done(denied) | "},
	{ticks, append(slices.Clip(standby), event(Woke, 3)), Event{Kind: Granted, At: at(3.1), Sent: at(3), Lease: lease.Lease{Token: 7, Tick: 1003}}, "Campaigning(denied) | granted | Releasing(unavailable) | release"},
	{ticks, append(slices.Clip(standby), event(Woke, 3)), Event{Kind: Granted, At: at(3.1), Sent: at(3), Lease: lease.Lease{Token: 7, Tick: 1000}}, "Campaigning(denied) | granted | Starting | start"},
	{nil, leading[:1], denied(lease.Served, 0.01), "Campaigning | served | Done(skipped) | "},
	{ticks, leading[:1], denied(lease.ClockDiffers, 0.01).tick(1000), "Campaigning | clock differs | Campaigning | acquire"},
	{ticks, append(slices.Clip(leading[:1]), denied(lease.ClockDiffers, 0.01).tick(1000)), denied(lease.ClockDiffers, 0.02).tick(2000), "Campaigning | clock differs | Standby(unavailable) | "},
	{ticks, []Event{event(Begin, 0), event(Order, 0.1).signal(15)}, denied(lease.ClockDiffers, 0.2).tick(1000), "Campaigning | clock differs | Done(ordered) | "},
	{nil, leading[:1], denied(lease.Paused, 0.01).remaining(3600), "Campaigning | paused | Done(paused) | "},
	{waits(at(60)), leading[:1], denied(lease.Paused, 0.01).remaining(3600), "Campaigning | paused | Standby(paused) | wait"},
	{waits(at(60)), pausedBy, event(Woke, 3), "Standby(paused) | woke | Campaigning(paused) | acquire"},
	{waits(at(60)), pausedBy, event(Timer, 30.02), "Standby(paused) | timer | Campaigning(paused) | acquire"},
	{waits(at(5)), append(slices.Clip(pausedBy), event(Timer, 5)), denied(lease.Paused, 5.01).remaining(3600), "Campaigning(paused) | paused | Done(paused) | "},
	{waits(at(60)), append(slices.Clip(pausedBy), event(Woke, 3)), denied(lease.Held, 3.1).remaining(20), "Campaigning(paused) | held | Standby(denied) | wait"},
	{waits(at(60)), append(slices.Clip(pausedBy), event(Woke, 3)), Event{Kind: Granted, At: at(3.1), Sent: at(3), Lease: lease.Lease{Token: 7}}, "Campaigning(paused) | granted | Starting | start"},
	{waits(at(60)), pausedBy, event(Order, 3).signal(15), "Standby(paused) | order 15 | Done(ordered) | pass"},
	{nil, []Event{event(Begin, 0), event(Order, 0.1).signal(15)}, denied(lease.Served, 0.2), "Campaigning | served | Done(ordered) | "},
	{nil, []Event{event(Begin, 0), event(Order, 0.1).signal(15)}, denied(lease.Paused, 0.2).remaining(3600), "Campaigning | paused | Done(ordered) | "},

	{checked, nil, event(Begin, 0), "Campaigning | begin | Checking | check"},
	{checked, leading[:1], event(MayLead, 0.01), "Checking | may lead | Campaigning | acquire"},
	{checked, leading[:1], event(MayNotLead, 0.01).because(unheard), "Checking | may not lead | Done(ineligible) | "},
	{checkedFor(at(60)), leading[:1], event(MayNotLead, 0.01).because(unheard), "Checking | may not lead | Standby(ineligible) | "},
	{checked, leading[:1], event(MayNotLead, 0.01).because(ErrUnchecked), "Checking | may not lead | Done(unchecked) | "},
	{checkedFor(at(60)), leading[:1], event(MayNotLead, 0.01).because(ErrUnchecked), "Checking | may not lead | Standby(unchecked) | "},
	{checked, leading[:1], event(MayNotLead, 10).because(ErrCheckLate), "Checking | may not lead | Done(unchecked) | "},
	{checkedFor(at(4)), leading[:1], event(MayNotLead, 4.1).because(ErrCheckLate), "Checking | may not lead | Done(ineligible) | "},
	{checkedFor(at(60)), leading[:1], event(MayNotLead, 10).because(ErrCheckLate), "Checking | may not lead | Standby(unchecked) | "},
	{checkedFor(at(60)), []Event{event(Begin, 0), event(MayNotLead, 0.01)}, event(Timer, 5.01), "Standby(ineligible) | timer | Checking(ineligible) | check"},
	{checkedFor(at(4)), []Event{event(Begin, 0), event(MayNotLead, 0.01), event(Timer, 4)}, event(MayNotLead, 4.01), "Checking(ineligible) | may not lead | Done(ineligible) | "},
	{checkedFor(at(60)), checkedStandby, event(Woke, 3), "Standby(denied) | woke | Checking(denied) | check"},
	{checkedFor(at(60)), append(slices.Clip(checkedStandby), event(Woke, 3)), event(MayNotLead, 3.1), "Checking(denied) | may not lead | Standby(ineligible) | pass"},
	{checkedFor(at(60)), append(slices.Clip(checkedStandby), event(Woke, 3)), event(MayLead, 3.1), "Checking(denied) | may lead | Campaigning(denied) | acquire"},
	{checkedFor(at(60)), append(slices.Clip(checkedStandby), event(Woke, 3)), event(Order, 3.1).signal(15), "Checking(denied) | order 15 | Done(ordered) | pass"},
	{checkedFor(at(60)), append(slices.Clip(checkedStandby), event(Timer, 19.66)), event(MayNotLead, 20), "Checking(denied) | may not lead | Standby(ineligible) | "},
	{checked, leading[:1], event(Order, 0.1).signal(15), "Checking | order 15 | Done(ordered) | "},
	{checked, leading[:1], event(PassOn, 0.1).signal(10), "Checking | pass on 10 | Checking | "},

	{nil, leading[:1], event(NoAnswer, 0.01).because(refused), "Campaigning | no answer | Standby(unavailable) | "},
	{nil, leading[:1], event(NoAnswer, 5).because(unheard), "Campaigning | no answer | Done(unavailable) | "},
	{waits(candidate.Forever), leading[:1], event(NoAnswer, 5).because(unheard), "Campaigning | no answer | Standby(unavailable) | "},
	{nil, refusedTwice, event(NoAnswer, 1.03).because(refused), "Campaigning(unavailable) | no answer | Done(unavailable) | "},
	{waits(candidate.Forever), []Event{event(Begin, 0), event(NoAnswer, 0.01).because(lease.ErrReleased)}, event(Timer, 5.01), "Standby(unavailable) | timer | Campaigning(unavailable) | acquire anew"},
	{waits(candidate.Forever), []Event{event(Begin, 0), event(NoAnswer, 0.01).because(lease.ErrReleased), event(Timer, 5.01), event(NoAnswer, 6).because(refused)},
		event(Timer, 16), "Standby(unavailable) | timer | Campaigning(unavailable) | acquire"},
	{waits(candidate.Forever), leading[:1], event(NoAnswer, 0.01).because(rights), "Campaigning | no answer | Done(unavailable) | "},
	{nil, leading[:1], event(Order, 0.1).signal(15), "Campaigning | order 15 | Campaigning | "},
	{nil, []Event{event(Begin, 0), event(Order, 0.1).signal(15)}, event(Order, 0.15).signal(15), "Campaigning | order 15 | Campaigning | "},
	{nil, []Event{event(Begin, 0), event(Order, 0.1).signal(15)}, event(Order, 0.3).signal(15), "Campaigning | order 15 | Done(ordered) | "},
	{nil, []Event{event(Begin, 0), event(Order, 0.1).signal(15)}, event(Timer, 0.6), "Campaigning | timer | Done(ordered) | "},
	{nil, []Event{event(Begin, 0), event(Order, 0.1).signal(15)}, denied(lease.Held, 0.2).remaining(9), "Campaigning | held | Done(ordered) | "},
	{nil, leading[:1], event(PassOn, 0.1).signal(10), "Campaigning | pass on 10 | Campaigning | "},

	{waits(at(60)), standby, event(Woke, 3), "Standby(denied) | woke | Campaigning(denied) | acquire"},
	{waits(at(60)), standby, event(Timer, 20.011), "Standby(denied) | timer | Campaigning(denied) | acquire"},
	{waits(at(60)), standby, event(ClockSet, 3), "Standby(denied) | clock set | Campaigning(denied) | acquire"},
	{waits(at(60)), standby, event(CannotWake, 0.02), "Standby(denied) | cannot wake | Standby(denied) | "},
	{waits(at(60)), standby, event(NoAnswer, 0.02), "Standby(denied) | no answer | Standby(denied) | "},
	{waits(at(60)), standby, event(Order, 3).signal(15), "Standby(denied) | order 15 | Done(ordered) | pass"},
	{waits(at(60)), standby, event(PassOn, 3).signal(1), "Standby(denied) | pass on 1 | Done(ordered) | pass"},
	{waits(at(60)), standby, event(PassOn, 3).signal(10), "Standby(denied) | pass on 10 | Standby(denied) | "},
	{waits(at(5)), append(slices.Clip(standby), event(Timer, 5)), denied(lease.Held, 5.01).remaining(15), "Campaigning(denied) | held | Done(denied) | "},

	{nil, leading[:1], event(ClockSet, 0.005), "Campaigning | clock set | Campaigning | "},
	{nil, append(slices.Clip(leading[:1]), event(ClockSet, 0.005), granted), event(Timer, 0.01), "Starting | timer | Starting | renew"},
	{nil, leading[:2], event(Started, 0.02), "Starting | started | Leading | "},
	{nil, leading[:2], event(StartFailed, 0.02).because(syscall.ENOENT), "Starting | start failed | Releasing(not-started) | release"},
	{nil, leading[:2], event(StartFailed, 21.2).because(unheard), "Starting | start failed | Releasing(expired) | signal 15, release"},
	{nil, leading[:2], event(TreeGone, 0.02).because(unheard), "Starting | tree gone | Releasing(guard-died) | release"},
	{nil, leading[:2], event(Order, 0.015).signal(2), "Starting | order 2 | Stopping(ordered) | signal 2"},
	{nil, leading[:2], event(LeaseLost, 0.015), "Starting | lost | Stopping(lost) | signal 15"},
	{nil, leading[:2], event(Timer, 21.195), "Starting | timer | Stopping(expired) | signal 15, renew"},
	{nil, append(slices.Clip(leading[:2]), event(Order, 0.015).signal(2)), event(StartFailed, 0.02), "Stopping(ordered) | start failed | Releasing(ordered) | release"},
	{nil, append(slices.Clip(leading[:2]), event(Timer, 10), handOver), event(StartFailed, 10.2).because(syscall.ENOENT), "Stopping(handed-over) | start failed | Releasing(not-started) | release"},

	{nil, leading, event(Timer, 10), "Leading | timer | Leading | renew"},
	{nil, append(slices.Clip(leading), event(Timer, 10)), event(Renewed, 10.1).sent(10), "Leading | renewed | Leading | extend"},
	{nil, append(slices.Clip(leading), event(Timer, 10)), event(NoAnswer, 12), "Leading | no answer | Doubtful | renew"},
	{nil, leading[:3], event(Timer, 0.11), "Leading | timer | Leading | listen"},
	{nil, leading, event(Pinged, 5), "Leading | pinged | Leading | renew, listen"},
	// The answer may be older than the call, so a renewal follows.
	{nil, append(slices.Clip(leading), event(Timer, 10)), event(Pinged, 10.1), "Leading | pinged | Leading | "},
	{nil, append(slices.Clip(leading), event(Timer, 10), event(Pinged, 10.1)), event(Renewed, 10.2).sent(10), "Leading | renewed | Leading | extend, listen"},
	{nil, append(slices.Clip(leading), event(Timer, 10), event(Pinged, 10.1), event(Renewed, 10.2).sent(10)), event(Timer, 10.2), "Leading | timer | Leading | renew"},
	{nil, append(slices.Clip(leading), event(Timer, 10), event(Broken, 10.1), event(Renewed, 10.2).sent(10)), event(Timer, 10.2), "Leading | timer | Leading | renew"},
	{nil, leading, event(Broken, 5), "Leading | broken | Leading | renew"},
	{nil, append(slices.Clip(leading), event(Broken, 5), event(NoAnswer, 5.01)), event(Renewed, 5.2).sent(5.1), "Doubtful | renewed | Leading | extend, listen"},
	{nil, leading, event(ClockSet, 5), "Leading | clock set | Leading | renew"},
	{nil, append(slices.Clip(leading), event(Timer, 10)), event(ClockSet, 10.1), "Leading | clock set | Leading | "},
	{nil, append(slices.Clip(leading), event(Timer, 10), event(ClockSet, 10.1), event(Renewed, 10.2).sent(10)), event(Timer, 10.2), "Leading | timer | Leading | renew"},
	{nil, append(slices.Clip(leading), event(Timer, 10), event(ClockSet, 10.1), event(Renewed, 10.2).sent(10), event(Timer, 10.2), event(Renewed, 10.3).sent(10.2)), event(Timer, 10.3), "Leading | timer | Leading | "},
	{nil, lost, event(ClockSet, 10.2), "Stopping(lost) | clock set | Stopping(lost) | "},
	{nil, leading, event(CannotWake, 5), "Leading | cannot wake | Leading | "},
	{func(s *Settings) { s.StopOnRenewError = true }, append(slices.Clip(leading), event(Timer, 10)), event(NoAnswer, 12), "Leading | no answer | Stopping(expired) | signal 15"},
	{func(s *Settings) { s.StopOnRenewError = true }, append(slices.Clip(leading), event(Pinged, 5), event(NoAnswer, 7)), event(Timer, 7.1), "Stopping(expired) | timer | Stopping(expired) | renew"},
	{nil, append(slices.Clip(leading), event(Timer, 10)), handOver, "Leading | renewed | Stopping(handed-over) | extend, signal 15"},
	{nil, append(slices.Clip(leading), event(Timer, 10)), event(LeaseLost, 10.1), "Leading | lost | Stopping(lost) | signal 15"},
	{nil, leading, event(Order, 5).signal(15), "Leading | order 15 | Stopping(ordered) | signal 15"},
	{nil, leading, event(Order, 5).signal(2), "Leading | order 2 | Stopping(ordered) | signal 2"},
	{func(s *Settings) { s.StopSignal, s.StopSignalNamed = 12, true }, leading, event(Order, 5).signal(2), "Leading | order 2 | Stopping(ordered) | signal 12"},
	{checked, checkedLeader, event(Timer, 10.01), "Leading | timer | Leading | check"},
	{checked, checkedLeader, event(MayNotLead, 10.1), "Leading | may not lead | Leading | "},
	{checked, checkedLeader, event(MayLead, 10.1), "Leading | may lead | Leading | "},
	{checked, append(slices.Clip(checkedLeader), event(MayNotLead, 10.1), event(Renewed, 20).sent(20), event(Renewed, 30).sent(30), event(MayNotLead, 40.1), event(Timer, 40.1)),
		Event{Kind: Renewed, At: at(40.2), Sent: at(40.1), Lease: lease.Lease{Token: 7, Holder: "h", HandOver: true}}, "Leading | renewed | Stopping(unfit) | extend, signal 15"},
	{killAfter(0), leading, event(Order, 5).signal(15), "Leading | order 15 | Killing(ordered) | kill"},
	{nil, leading, event(PassOn, 5).signal(1), "Leading | pass on 1 | Leading | signal 1"},
	{nil, leading, event(Order, 5).signal(2).terminal(), "Leading | terminal's order 2 | Leading | "},
	{nil, leading, event(PassOn, 5).signal(3).terminal(), "Leading | terminal's pass on 3 | Leading | "},
	{nil, leading[:2], event(Order, 0.015).signal(2).terminal(), "Starting | terminal's order 2 | Stopping(ordered) | signal 2"},
	{nil, leading[:2], event(PassOn, 0.015).signal(20).terminal(), "Starting | terminal's pass on 20 | Starting | "},
	{waits(at(60)), standby, event(Order, 3).signal(2).terminal(), "Standby(denied) | terminal's order 2 | Done(ordered) | pass"},
	{maxRuntime, leading, event(Timer, 3.02), "Leading | timer | Stopping(max-runtime) | signal 15"},
	{nil, leading, event(CommandEnded, 5).exit(3), "Leading | command ended 3 | Leading | "},
	{nil, append(slices.Clip(leading), event(CommandEnded, 5).exit(3)), event(Timer, 5.1), "Leading | timer | Stopping(leftovers) | signal 15"},
	{leftovers(candidate.LeftoversWait), append(slices.Clip(leading), event(CommandEnded, 5)), event(Timer, 10), "Leading | timer | Leading | renew"},
	{leftovers(candidate.LeftoversLeave), leading, event(CommandEnded, 5), "Leading | command ended 0 | Releasing(detached) | leave, release"},
	{nil, leading, event(TreeGone, 5).exit(3), "Leading | tree gone 3 | Releasing(exited) | release"},
	{nil, leading, event(TreeGone, 5).because(unheard), "Leading | tree gone | Releasing(guard-died) | release"},
	{nil, leading, event(TreeGone, 28).exit(3), "Leading | tree gone 3 | Releasing(exited) | release"},
	{nil, leading, event(TreeGone, 28.7), "Leading | tree gone 0 | Releasing(expired) | kill, release"},
	{nil, leading, event(TreeGone, 5).expired(), "Leading | tree gone at kill-by 0 | Releasing(expired) | release"},
	{nil, ordered, event(TreeGone, 6).expired(), "Stopping(ordered) | tree gone at kill-by 0 | Releasing(expired) | release"},
	{nil, lost, event(TreeGone, 10.5).expired(), "Stopping(lost) | tree gone at kill-by 0 | Releasing(lost) | release"},
	{nil, leading, event(Timer, 28.7), "Leading | timer | Killing(expired) | kill, renew"},

	{nil, doubtful, event(NoAnswer, 14), "Doubtful | no answer | Doubtful | "},
	{nil, append(slices.Clip(doubtful), event(NoAnswer, 14)), event(Timer, 14.5), "Doubtful | timer | Doubtful | renew"},
	{nil, doubtful, event(Renewed, 12.1).sent(12), "Doubtful | renewed | Leading | extend"},
	{nil, doubtful, event(LeaseLost, 12.1), "Doubtful | lost | Stopping(lost) | signal 15"},
	{nil, doubtful, event(Timer, 21.195), "Doubtful | timer | Stopping(expired) | signal 15"},
	{nil, doubtful, event(Order, 13).signal(15), "Doubtful | order 15 | Stopping(ordered) | signal 15"},

	{nil, ordered, event(Timer, 10), "Stopping(ordered) | timer | Stopping(ordered) | renew"},
	{nil, append(slices.Clip(ordered), event(Timer, 10)), event(Renewed, 10.1).sent(10), "Stopping(ordered) | renewed | Stopping(ordered) | extend"},
	{nil, append(slices.Clip(ordered), event(Timer, 10)), event(NoAnswer, 12), "Stopping(ordered) | no answer | Stopping(ordered) | "},
	{nil, append(slices.Clip(ordered), event(Timer, 10)), event(LeaseLost, 10.1), "Stopping(ordered) | lost | Stopping(lost) | "},
	{killAfter(time.Hour), ordered, event(Timer, 21.195), "Stopping(ordered) | timer | Stopping(expired) | renew"},
	{nil, killing[:len(killing)-1], event(Timer, 15), "Stopping(ordered) | timer | Killing(ordered) | kill"},
	{nil, ordered, event(Order, 5.1).signal(15), "Stopping(ordered) | order 15 | Killing(ordered) | kill"},
	{nil, ordered, event(Order, 5.05).signal(15), "Stopping(ordered) | order 15 | Stopping(ordered) | "},
	{nil, ordered, event(Order, 5.05).signal(2), "Stopping(ordered) | order 2 | Stopping(ordered) | signal 2"},
	{func(s *Settings) { s.StopSignalNamed = true }, ordered, event(Order, 5.05).signal(2), "Stopping(ordered) | order 2 | Stopping(ordered) | "},
	{nil, handedOver, event(Order, 11).signal(15), "Stopping(handed-over) | order 15 | Stopping(handed-over) | "},
	{nil, append(slices.Clip(handedOver), event(Order, 11).signal(15)), event(Order, 12).signal(15), "Stopping(handed-over) | order 15 | Killing(handed-over) | kill"},
	{nil, ordered, event(CommandEnded, 6), "Stopping(ordered) | command ended 0 | Stopping(ordered) | signal rest 15"},
	{nil, ordered, event(TreeGone, 6), "Stopping(ordered) | tree gone 0 | Releasing(ordered) | release"},
	{nil, lost, event(Timer, 11.1), "Stopping(lost) | timer | Killing(lost) | kill"},
	{killAfter(at(1.5)), append(slices.Clip(ordered), event(LeaseLost, 6)), event(Timer, 6.5), "Stopping(lost) | timer | Killing(lost) | kill"},
	{nil, lost, event(Renewed, 10.2).sent(10), "Stopping(lost) | renewed | Stopping(lost) | "},
	{nil, lost, event(TreeGone, 10.5), "Stopping(lost) | tree gone 0 | Releasing(lost) | release"},

	{nil, expired, event(Renewed, 21.3).sent(21.2), "Stopping(expired) | renewed | Stopping(expired) | "},
	{nil, expired, event(NoAnswer, 23.2), "Stopping(expired) | no answer | Stopping(expired) | "},
	{nil, append(slices.Clip(expired), event(NoAnswer, 23.2)), event(Timer, 23.3), "Stopping(expired) | timer | Stopping(expired) | renew"},
	{nil, append(slices.Clip(expired), event(Renewed, 21.3).sent(21.2)), event(Pinged, 21.4), "Stopping(expired) | pinged | Stopping(expired) | renew, listen"},
	{nil, append(slices.Clip(expired), event(LeaseLost, 21.3)), event(Timer, 25), "Stopping(expired) | timer | Killing(expired) | kill"},
	{nil, append(slices.Clip(expired), event(Renewed, 21.3).sent(21.2)), event(Timer, 28.695), "Stopping(expired) | timer | Killing(expired) | kill"},
	{nil, killing, event(Timer, 20), "Killing(ordered) | timer | Killing(ordered) | renew, kill"},
	{nil, killing, event(Timer, 31.2), "Killing(ordered) | timer | Killing(expired) | renew, kill"},
	{nil, append(slices.Clip(lost), event(Timer, 11.1)), event(TreeGone, 11.2), "Killing(lost) | tree gone 0 | Releasing(lost) | release"},

	{nil, append(slices.Clip(leading), event(TreeGone, 5)), event(Released, 5.1), "Releasing(exited) | released | Done(exited) | "},
	{nil, append(slices.Clip(leading), event(TreeGone, 5)), event(ReleaseFailed, 7), "Releasing(exited) | release failed | Releasing(exited) | "},
	{nil, append(slices.Clip(leading), event(TreeGone, 5)), event(Timer, 7.5), "Releasing(exited) | timer | Releasing(exited) | "},
	{nil, append(slices.Clip(leading), event(TreeGone, 5), event(Timer, 7.5), event(Timer, 8)), event(Timer, 10.5), "Releasing(exited) | timer | Done(exited) | "},
	{nil, append(slices.Clip(leading), event(TreeGone, 5), event(ReleaseFailed, 7)), event(Timer, 7.5), "Releasing(exited) | timer | Releasing(exited) | release"},
	{nil, append(slices.Clip(leading), event(TreeGone, 5), event(ReleaseFailed, 7), event(Timer, 7.5)), event(ReleaseFailed, 9.5), "Releasing(exited) | release failed | Done(exited) | "},
	{func(s *Settings) { s.OncePer = true }, append(slices.Clip(leading), event(TreeGone, 5), event(ReleaseFailed, 7), event(Timer, 7.5)), event(ReleaseFailed, 9.5), "Releasing(exited) | release failed | Releasing(exited) | "},
	{rejoins, append(slices.Clip(lost), event(TreeGone, 11)), event(Released, 11.1), "Releasing(lost) | released | Standby(unavailable) | "},
	{rejoins, append(slices.Clip(handedOver), event(LeaseLost, 11), event(TreeGone, 11.1)), event(Released, 11.2), "Releasing(lost) | released | Done(lost) | "},
	{rejoins, append(slices.Clip(ordered), event(TreeGone, 6)), event(Released, 6.1), "Releasing(ordered) | released | Done(ordered) | "},
	{rejoins, append(slices.Clip(lost), event(TreeGone, 11), event(Released, 11.1)), event(Timer, 16.1), "Standby(unavailable) | timer | Campaigning(unavailable) | acquire anew"},
	{waits(at(60)), []Event{event(Begin, 0), event(Granted, 21.2)}, event(Released, 21.3), "Releasing(unavailable) | released | Standby(unavailable) | "},
}

func TestTable(t *testing.T) {
	for _, row := range table {
		t.Run(row.want, func(t *testing.T) {
			set := settings()
			if row.set != nil {
				row.set(&set)
			}
			w := newWatch(t, set)
			for _, e := range row.given {
				w.step(e)
			}
			if got := w.step(row.event); got != row.want {
				t.Errorf("\n got %s\nwant %s", got, row.want)
			}
		})
	}
}

var update = flag.Bool("update", false, "write the table of docs/design/state-machine.md anew")

// docs/design/state-machine.md has each row of the table exactly once.
func TestDocumentedTable(t *testing.T) {
	const name, fence = "../../docs/design/state-machine.md", "```"
	page := must.Read(t, name)
	before, rest, _ := strings.Cut(page, fence+"text\n")
	_, after, found := strings.Cut(rest, fence+"\n")
	if !found {
		t.Fatalf("%s has no block for the table", name)
	}
	var rows strings.Builder
	known := map[string]bool{}
	for _, row := range table {
		if line := strings.TrimSpace(row.want); !known[line] {
			known[line] = true
			rows.WriteString(line + "\n")
		}
	}
	want := before + fence + "text\n" + rows.String() + fence + "\n" + after
	if *update {
		must.Succeed(t, os.WriteFile(name, []byte(want), 0o644))
	} else if page != want {
		t.Errorf("%s is not up to date: run this test with -update", name)
	}
}

// If the guard dies while the command is being stopped, nobody knows how the command
// ended: that must not look like a success.
func TestGuardDeathIsNoSuccess(t *testing.T) {
	w := newWatch(t, settings())
	for _, e := range append(slices.Clip(ordered), event(TreeGone, 6).because(unheard)) {
		w.step(e)
	}
	if got := w.state.Exit; got != (candidate.Exit{Signal: 9}) || w.state.Outcome != candidate.Ordered {
		t.Errorf("%s, exit %+v", w.state, got)
	}
	w = newWatch(t, settings())
	for _, e := range append(slices.Clip(ordered), event(CommandEnded, 5.5).exit(3), event(TreeGone, 6).because(unheard)) {
		w.step(e)
	}
	if got := w.state.Exit; got != (candidate.Exit{Code: 3}) {
		t.Errorf("exit %+v: the end that was reported is forgotten", got)
	}
}
