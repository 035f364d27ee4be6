package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// Diagnosis is the answer of why, also as JSON. Fields are only ever added.
type Diagnosis struct {
	Key    string `json:"key"`
	Well   bool   `json:"well"`
	Reason string `json:"reason"` // one word for programs
	Text   string `json:"text"`
	Next   string `json:"next"` // a command
	// Missing are hosts that used to come for ticks and do not any more.
	Missing []string `json:"missing"`
	// On is the host to run it on; nil for any.
	On *string `json:"on"`
}

// Command returns the next command and the host to run it on.
func (d Diagnosis) Command() string {
	if d.On == nil {
		return d.Next
	}
	return "on " + *d.On + ": " + d.Next
}

const seeDoctor = "leaderrun doctor"

// unreported says why a run may not have reported how it ended.
const unreported = "its host or leaderrun died, or the store was out of its reach"

// reasons are why a key may not be well, the worst first.
var reasons = []string{"unreadable", "foreign", "vanished", "lost", "overdue", "idle", "failed", "stopped", "long", "revoked", "never", "paused"}

// WorstFirst sorts the diagnoses of keys that are not well.
func WorstFirst(list []Diagnosis) {
	slices.SortStableFunc(list, func(a, b Diagnosis) int {
		return cmp.Compare(slices.Index(reasons, a.Reason), slices.Index(reasons, b.Reason))
	})
}

// Diagnose says what happened last under a key, or why nobody leads. It knows only what
// the store knows.
func Diagnose(s lease.Status) Diagnosis {
	d := diagnoseTaken(s)
	if s.Why == "" {
		d = diagnoseFree(s)
	}
	if p := s.Paused(); p.Why != "" {
		d = Diagnosis{Reason: string(p.Why), Text: p.String(), Next: "leaderrun resume"}
		if s.Why == lease.Held {
			d.Text += "; " + s.Condition().Lasting().String() + " and goes on"
		}
	}
	d.Key, d.Missing = s.Key, []string{}
	for _, c := range missing(s) {
		d.Missing = append(d.Missing, c.Host)
	}
	if text := missingText(s); text != "" {
		d.Text += "; " + text
		if d.Well {
			d.Next, d.On = seeDoctor, &d.Missing[0]
		}
	}
	if d.Next != seeDoctor { // doctor is about a host, not about a key
		d.Next += " --key " + s.Key
	}
	return d
}

func diagnoseTaken(s lease.Status) Diagnosis {
	c := s.Condition()
	d := Diagnosis{Reason: string(c.Why), Text: c.String(), Next: "leaderrun status"}
	switch c.Why {
	case lease.Held:
		d.Well = true
		if usual := longestRun(s.Runs); usual > 0 && c.Since > 3*max(usual, time.Minute) && !s.HandOver {
			d.Well, d.Reason, d.Next = false, "long", "leaderrun release"
			d.Text += fmt.Sprintf(", the runs before took %s at most", lease.Span(usual))
		}
	case lease.Cooldown:
		d.Well = true
		if len(s.Runs) > 0 {
			last := lastRun(s)
			last.Text += "; " + d.Text
			return last
		}
	case lease.Foreign:
		if s.Remaining > 0 { // somebody's lock
			d.Text += fmt.Sprintf(": another program has it, for %s unless it renews that", lease.Span(s.Remaining))
			break
		}
		d.Text += ": nobody is granted it; if no other program needs that, delete it"
		d.Next = "leaderrun release --force --now"
	}
	return d
}

// longestRun returns the duration of the longest recent run that ended by itself; 0 if
// there are fewer than three.
func longestRun(runs []lease.Run) (longest time.Duration) {
	n := 0
	for _, r := range runs {
		if succeeded(r) {
			n++
			longest = max(longest, between(r.Start, r.End))
		}
	}
	if n < 3 {
		return 0
	}
	return max(longest, time.Millisecond)
}

func diagnoseFree(s lease.Status) Diagnosis {
	if s.Holder != "" {
		return Diagnosis{Reason: "vanished", Text: fmt.Sprintf("%s vanished: it led from %s on, its lease ran out, and nobody has led since; %s", s.Holder.Host(), lease.Instant(s.Since), unreported), Next: "leaderrun status"}
	}
	if len(s.Runs) == 0 {
		d := Diagnosis{Reason: "never", Text: "nobody has ever led under this key; leaderrun status lists all keys", Next: seeDoctor}
		if s.Token != 0 {
			d.Text = "nobody leads, and no run is known"
		}
		return d
	}
	d := lastRun(s)
	last := s.Runs[0]
	free, usual := between(max(last.Start, last.End), s.Now), longestBreak(s.Runs)
	if s.Period == 0 && usual > 0 && free > 3*max(usual, time.Minute) {
		d.Well, d.Reason, d.Next, d.On = false, "idle", seeDoctor, orNull(last.Host)
		d.Text = fmt.Sprintf("nobody has led for %s, between the runs before for %s at most: no host asks for the key, or none is eligible; the last run: %s", lease.Span(free), lease.Span(usual), d.Text)
	}
	if late := overdue(s); late > 0 {
		d.Well, d.Reason, d.Next, d.On = false, "overdue", seeDoctor, orNull(cmp.Or(s.Candidates...).Host)
		d.Text = fmt.Sprintf("nothing has run since %s: expected again after %s, due %s ago; %sthe last run: %s", lease.Instant(newestTick(s)), lease.FormatDuration(s.Period), lease.Span(late), cameLast(s), d.Text)
	}
	return d
}

// longestBreak returns the longest time without a leader between the recent runs of a
// service, which is a key that is led most of the time; 0 if the key is not a service or
// fewer than three breaks are known.
func longestBreak(runs []lease.Run) (longest time.Duration) {
	var led, free time.Duration
	n := 0
	for i, r := range runs {
		led += between(r.Start, r.End)
		if i > 0 && r.End != 0 {
			b := between(r.End, runs[i-1].Start)
			n, free, longest = n+1, free+b, max(longest, b)
		}
	}
	if n < 3 || free >= led {
		return 0
	}
	return max(longest, time.Millisecond)
}

// cameLast says when any host last came for an overdue key; "" if that is unknown.
func cameLast(s lease.Status) string {
	if len(s.Candidates) == 0 {
		return ""
	}
	last := s.Candidates[0]
	if between(newestTick(s), last.Last) < s.Period-lateness(s.Period) {
		return fmt.Sprintf("nobody has come since %s; ", lease.Instant(last.Last))
	}
	return fmt.Sprintf("%s came at %s and ran nothing; ", last.Host, lease.Instant(last.Last))
}

// lateness is how late hosts may come for their tick: a quarter of the period, at most
// 15 minutes.
func lateness(period time.Duration) time.Duration { return min(period/4, 15*time.Minute) }

// overdue returns how long ago the next tick was due; 0 if it is not overdue by more than
// hosts may be late.
func overdue(s lease.Status) time.Duration {
	if s.Period == 0 {
		return 0
	}
	late := between(newestTick(s), s.Now) - s.Period
	if late <= lateness(s.Period) {
		return 0
	}
	return late
}

// stops say how runs ended that did not end by themselves.
var stops = map[candidate.Outcome]string{
	candidate.Ordered:    "stopped by a signal to leaderrun",
	candidate.HandedOver: "stopped by an operator's release",
	candidate.Unfit:      "stopped because --eligible failed there",
	candidate.MaxRuntime: "stopped after its --max-runtime",
	candidate.Lost:       "lost its lease",
	candidate.Expired:    "could not renew its lease in time",
	candidate.GuardDied:  "killed with its guard",
	lease.OutcomeKilled:  "killed with leaderrun itself",
}

// succeeded reports whether the command ended by itself, with 0.
func succeeded(r lease.Run) bool {
	return !r.Vanished && r.Exit == 0 && stops[candidate.Outcome(r.Outcome)] == ""
}

// lastRun says how the newest run ended, and how often in a row runs for the same tick
// ended like that.
func lastRun(s lease.Status) Diagnosis {
	r := s.Runs[0]
	ended := max(r.Start, r.End)
	ago := fmt.Sprintf("%s (%s ago)", lease.Instant(ended), lease.Span(between(ended, s.Now)))
	switch {
	case r.Vanished:
		return Diagnosis{Reason: "vanished", Text: fmt.Sprintf("%s vanished with the run that began %s: %s", r.Host, lease.Instant(r.Start), unreported), Next: "leaderrun history"}
	case succeeded(r):
		d := Diagnosis{Well: true, Reason: "succeeded", Text: fmt.Sprintf("ran on %s and succeeded at %s, it took %s", r.Host, ago, lease.Span(between(r.Start, r.End))), Next: "leaderrun history"}
		if s.Period > 0 && s.ServedTick != 0 && overdue(s) == 0 {
			d.Text += fmt.Sprintf("; the tick of %s is served, the next is due %s", lease.Instant(s.ServedTick), lease.Instant(s.ServedTick+s.Period.Milliseconds()))
		}
		return d
	}
	times := 1
	for ; times < min(s.Starts, len(s.Runs)); times++ { // the store counts the starts for one tick
		if before := s.Runs[times]; before.Vanished || before.Exit != r.Exit || before.Outcome != r.Outcome {
			break
		}
	}
	d := Diagnosis{Reason: "failed", Text: fmt.Sprintf("ran on %s and failed with %d", r.Host, r.Exit), Next: "leaderrun history"}
	switch stop := stops[candidate.Outcome(r.Outcome)]; {
	case candidate.Outcome(r.Outcome).Voids():
		d.Reason, d.Text = "lost", fmt.Sprintf("ran on %s and %s", r.Host, stop)
	case stop != "":
		d.Reason, d.Text = "stopped", fmt.Sprintf("ran on %s and was %s", r.Host, stop)
	case r.Exit > lease.ExitSignalled:
		d.Reason, d.Text = "stopped", fmt.Sprintf("ran on %s and was ended by signal %d", r.Host, r.Exit-lease.ExitSignalled)
	}
	if times > 1 {
		d.Text += fmt.Sprintf(", %d times in a row, the last time", times)
	}
	d.Text += " at " + ago
	if s.Period > 0 && s.Starts > 0 {
		d.Text += fmt.Sprintf("; starts for its tick: %d", s.Starts)
		if s.Tries > 0 && s.Starts >= s.Tries {
			d.Text += ", and --tries allows no more"
		}
	}
	return d
}
