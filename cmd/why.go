package cmd

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/settings"
)

func whyCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "why --key NAME",
		Short: "What happened last under a key, or why nobody leads, and what to do",
		Long: `What happened last under a key, or why nobody leads, in one sentence, and the command to type next.

Exit status: 0 all is well, 1 it is not, 69 the store is away.`,
		Example: "  leaderrun why --key nightly\n  leaderrun why --key nightly -o json | jq -r .reason",
		Args:    noArguments,
	}
	flags, output := addFlags(command, append(storeFlags, "key")...), outputFlag(command)
	command.RunE = func(*cobra.Command, []string) error {
		return flags.ask(true, func(ctx context.Context, c settings.Config, store lease.Admin) error {
			s, err := store.Inspect(ctx, c.Key)
			if err != nil {
				return err
			}
			return tellWhy(diagnosisOf(s), *output)
		})
	}
	return command
}

// diagnosis is what why says of a key, also as JSON. Fields are only ever added.
type diagnosis struct {
	Key    string `json:"key"`
	Well   bool   `json:"well"`
	Reason string `json:"reason"` // one word for programs
	Text   string `json:"text"`
	Next   string `json:"next"` // a command
	// Missing are hosts that used to come for ticks.
	Missing []string `json:"missing"`
}

const seeDoctor = "leaderrun doctor"

// unreported is why a run may not have said how it ended.
const unreported = "its host or leaderrun died, or the store was out of its reach"

func tellWhy(d diagnosis, output format) error {
	err := output.print(d, func(b *bytes.Buffer) {
		fmt.Fprintf(b, "%s: %s\n  %s\n", d.Key, observe.Printable(d.Text), d.Next)
	})
	if err == nil && !d.Well {
		return errNo
	}
	return err
}

// diagnosisOf says what happened last under a key, or why nobody leads, from what the
// store knows alone.
func diagnosisOf(s lease.Status) diagnosis {
	d := diagnosisOfHeld(s)
	if s.Why == "" {
		d = diagnosisOfFree(s)
	}
	if s.Pause != (lease.Pause{}) {
		d = diagnosis{Reason: "paused", Text: pausedUntil(s), Next: "leaderrun resume"}
		if s.Why == lease.HeldLeader {
			d.Text += "; " + s.Holder.Host() + " leads and goes on"
		}
	}
	d.Key, d.Missing = s.Key, []string{}
	for _, c := range missing(s) {
		d.Missing = append(d.Missing, c.Host)
	}
	if text := missingText(s); text != "" {
		d.Text += "; " + text
		if d.Well {
			d.Next = seeDoctor
		}
	}
	if d.Next != seeDoctor { // which looks at a host, not at a key
		d.Next += " --key " + s.Key
	}
	return d
}

func diagnosisOfHeld(s lease.Status) diagnosis {
	host := s.Holder.Host()
	switch s.Why {
	case lease.HeldCooldown:
		d := diagnosis{Well: true, Reason: "cooldown", Text: "the last run is over", Next: "leaderrun status"}
		if len(s.Runs) > 0 {
			d = lastRun(s)
		}
		d.Text += fmt.Sprintf("; its minimum hold keeps the key for another %s", span(s.Remaining))
		return d
	case lease.HeldRevoked:
		return diagnosis{Reason: "revoked", Text: fmt.Sprintf("nobody leads: the lease was taken from %s, which has %s to stop its command", host, span(s.Remaining)), Next: "leaderrun status"}
	case lease.HeldForeign:
		return diagnosis{Reason: "foreign", Text: means(s) + ": nobody is granted the key", Next: "leaderrun release --force --now"}
	}
	held := between(s.Since, s.Now)
	d := diagnosis{Well: true, Reason: "held", Text: fmt.Sprintf("held by %s for %s", host, span(held)), Next: "leaderrun status"}
	if s.HandOver {
		d.Text += ", which was asked to hand over"
		return d
	}
	if usual := longestRun(s.Runs); usual > 0 && held > 3*max(usual, time.Minute) {
		d.Well, d.Reason, d.Next = false, "long", "leaderrun release"
		d.Text += fmt.Sprintf(", the runs before took %s at most", span(usual))
	}
	return d
}

// longestRun is how long the last runs that ended by themselves took at most; 0
// where fewer than three did.
func longestRun(runs []lease.Run) (longest time.Duration) {
	n := 0
	for _, r := range runs {
		if !r.Vanished && r.Exit == 0 {
			n++
			longest = max(longest, between(r.Start, r.End))
		}
	}
	if n < 3 {
		return 0
	}
	return max(longest, time.Millisecond)
}

func diagnosisOfFree(s lease.Status) diagnosis {
	if s.Holder != "" {
		return diagnosis{Reason: "vanished", Text: fmt.Sprintf("%s vanished: it led from %s on, its lease ran out, and nobody has led since; %s", s.Holder.Host(), instant(s.Since), unreported), Next: "leaderrun history"}
	}
	if len(s.Runs) == 0 {
		d := diagnosis{Reason: "never", Text: "nobody has ever led under this key", Next: seeDoctor}
		if s.Token != 0 {
			d.Text = "nobody leads, and no run is known"
		}
		return d
	}
	d := lastRun(s)
	if late := overdue(s); late > 0 {
		d.Well, d.Reason, d.Next = false, "overdue", seeDoctor
		d.Text = fmt.Sprintf("nothing has run since %s: expected again after %s, due %s ago; %sthe last run: %s", instant(newestTick(s)), settings.FormatDuration(s.Period), span(late), cameLast(s), d.Text)
	}
	return d
}

// cameLast says when anybody came last for a key that is overdue; "" where that is not known.
func cameLast(s lease.Status) string {
	if len(s.Candidates) == 0 {
		return ""
	}
	last := s.Candidates[0]
	if between(newestTick(s), last.Last) < s.Period-lateness(s.Period) {
		return fmt.Sprintf("nobody has come since %s; ", instant(last.Last))
	}
	return fmt.Sprintf("%s came at %s and ran nothing; ", last.Host, instant(last.Last))
}

// lateness is by how much hosts may come late for their tick: a quarter of the period,
// 15 minutes at most.
func lateness(period time.Duration) time.Duration { return min(period/4, 15*time.Minute) }

// overdue is how long ago the next tick was due; 0 where it is not, within what
// hosts may come late.
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

// lastRun says how the newest run ended, with those before it that ended alike
// for the same tick.
func lastRun(s lease.Status) diagnosis {
	r := s.Runs[0]
	ended := max(r.Start, r.End)
	ago := fmt.Sprintf("%s (%s ago)", instant(ended), span(between(ended, s.Now)))
	switch {
	case r.Vanished:
		return diagnosis{Reason: "vanished", Text: fmt.Sprintf("%s vanished with the run that began %s: %s", r.Host, instant(r.Start), unreported), Next: "leaderrun history"}
	case r.Exit == 0:
		d := diagnosis{Well: true, Reason: "succeeded", Text: fmt.Sprintf("ran on %s and succeeded at %s, it took %s", r.Host, ago, span(between(r.Start, r.End))), Next: "leaderrun history"}
		if s.Period > 0 && s.Served != 0 {
			d.Text += fmt.Sprintf("; the tick of %s is served, the next is due %s", instant(s.Served), instant(s.Served+s.Period.Milliseconds()))
		}
		return d
	}
	times := 1
	for ; times < min(s.Starts, len(s.Runs)); times++ { // the store counts what was started for one tick
		if before := s.Runs[times]; before.Vanished || before.Exit != r.Exit {
			break
		}
	}
	d := diagnosis{Reason: "failed", Text: fmt.Sprintf("ran on %s and failed with %d", r.Host, r.Exit), Next: "leaderrun history"}
	switch {
	case r.Exit == exitVoid:
		d.Reason, d.Text = "lost", fmt.Sprintf("ran on %s and lost its lease, to an outage of the store, another holder or an operator,", r.Host)
	case r.Exit > exitSignalled:
		d.Reason, d.Text = "stopped", fmt.Sprintf("ran on %s and was ended by signal %d", r.Host, r.Exit-exitSignalled)
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
