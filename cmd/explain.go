package cmd

import (
	"bytes"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/report"
	"github.com/leaderrun/leaderrun/internal/settings"
)

func explainCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "explain [--ttl D] [--renew D] [--kill-after D] ...",
		Short: "What the durations of a run lead to",
		Long: `What the durations of a run lead to: when it renews, when it stops and kills the command if nobody answers, how long
the store may be away, and how long nobody leads at worst.`,
		Example: "  leaderrun explain --ttl 10s\n  leaderrun explain --profile unreliable -o json",
		Args:    noArguments,
	}
	flags := addFlags(command, "ttl", "renew", "retry", "profile", "kill-after", "lost-grace", "wait", "once-per", "min-hold", "config")
	output := outputFlag(command)
	command.RunE = func(*cobra.Command, []string) error {
		c, _, err := flags.read()
		if err != nil {
			return err
		}
		line := timeline(c)
		return output.print(durations(line), func(b *bytes.Buffer) {
			b.WriteString("after the last renewal that was answered\n")
			report.WriteTable(b, timelineRows(line[:pointsInTime]))
			b.WriteString("\nwhich means\n")
			report.WriteTable(b, timelineRows(line[pointsInTime:]))
		})
	}
	return command
}

// entry is one line of the explanation: a duration, its name in JSON and in the
// table, and what it means.
type entry struct {
	at         time.Duration
	name, what string
	meaning    string
}

// The first five entries are points in time, the others durations.
const pointsInTime = 5

func timelineRows(entries []entry) [][]string {
	cells := make([][]string, 0, len(entries))
	for _, e := range entries {
		cells = append(cells, []string{"  " + e.what, report.Span(e.at), e.meaning})
	}
	return cells
}

// timeline lists what happens if no renewal is answered after the one sent at 0, and
// the durations that follow from it.
func timeline(c settings.Config) []entry {
	t := elect.NewTiming(c.TTL, c.Renew, c.KillAfter)
	return []entry{
		{t.Renew, "renew", "renewal", fmt.Sprintf("the next one is sent; unanswered for %s it is repeated every %s", report.Span(t.Attempt), report.Span(t.Attempt+t.DoubtPause()))},
		{t.StopBy(0), "stop_by", "stop-by", fmt.Sprintf("still no answer: the command gets the first signal, and %s to end", report.Span(t.Grace))},
		{t.KillBy(0), "kill_by", "kill-by", fmt.Sprintf("SIGKILL to its whole tree, by the guard, also if leaderrun itself is dead; it has %s to die", report.Span(t.KillMargin))},
		{t.ValidUntil(0), "valid_until", "valid until", "the lease may be another host's from here on, if clocks differ"},
		{t.TTL, "expiry", "expiry", "the store gives the lease to the next who asks"},
		{t.Outage(), "outage", "outage", "the store or the network may be away for so long, and no command notices"},
		{t.TTL, "failover", "failover", "at worst nobody leads for so long, if the leader's host dies; a standby takes over at once when a run ends"},
		{t.Margin, "drift", "drift", fmt.Sprintf("the clocks of store and host may drift apart by so much in one TTL (%.1f%%)", 100*t.Margin.Seconds()/t.TTL.Seconds())},
		{c.Retry, "retry", "retry", "a standby asks that often while the store is away or cannot wake it"},
		{c.LostGrace, "lost_grace", "lost grace", "a command has so long to end when the store says that the lease is another's"},
	}
}

// durations are the entries in milliseconds.
func durations(line []entry) map[string]int64 {
	ms := make(map[string]int64, len(line))
	for _, e := range line {
		ms[e.name+"_ms"] = e.at.Milliseconds()
	}
	return ms
}
