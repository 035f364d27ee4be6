package report

import (
	"bytes"
	"fmt"
	"time"

	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// Timeline lists the times that follow from the durations of a run.
type Timeline []Entry

// Entry is a duration with its name, in JSON and in the table, and its meaning.
type Entry struct {
	At         time.Duration
	Name, What string
	Meaning    string
}

// Points is how many of the first entries are points in time after the last answered renewal.
// The others are durations.
const Points = 5

// TimelineOf lists what happens, and when, if no renewal is answered after the one that was
// sent at 0, and the durations that follow from that.
func TimelineOf(c settings.Config) Timeline {
	t := elect.NewTiming(c.TTL, c.Renew, c.KillAfter)
	return Timeline{
		{t.Renew, "renew", "renewal", fmt.Sprintf("the next one is sent; without an answer for %s it is repeated every %s", lease.Span(t.Attempt), lease.Span(t.Attempt+t.DoubtPause()))},
		{t.StopBy(0), "stop_by", "stop-by", fmt.Sprintf("still no answer: the command gets the first signal, and %s to end", lease.Span(t.Grace))},
		{t.KillBy(0), "kill_by", "kill-by", fmt.Sprintf("SIGKILL to its whole tree, by the guard, also if leaderrun itself is dead; it has %s to die", lease.Span(t.KillMargin))},
		{t.ValidUntil(0), "valid_until", "valid until", "the lease may be another host's from here on, if clocks differ"},
		{t.TTL, "expiry", "expiry", "the store gives the lease to the next who asks"},
		{t.Outage(), "outage", "outage", "the store or the network may be away for this long before a command is stopped"},
		{t.TTL, "failover", "failover", "nobody leads for this long at worst, if the leader's host dies; a standby takes over at once when a run ends"},
		{t.Margin, "drift", "drift", fmt.Sprintf("the clocks of store and host may drift apart by this much in one TTL (%.1f%%)", 100*t.Margin.Seconds()/t.TTL.Seconds())},
		{c.Retry, "retry", "retry", "a standby asks this often while the store is away or cannot wake it"},
		{c.LostGrace, "lost_grace", "lost grace", "a command has this long to end when the store says that the lease is another's"},
	}
}

// Write writes it as a table.
func (t Timeline) Write(b *bytes.Buffer) {
	b.WriteString("after the last renewal that was answered\n")
	WriteTable(b, t[:Points].rows())
	b.WriteString("\nwhich means\n")
	WriteTable(b, t[Points:].rows())
}

func (t Timeline) rows() [][]string {
	rows := make([][]string, 0, len(t))
	for _, e := range t {
		rows = append(rows, []string{"  " + e.What, lease.Span(e.At), e.Meaning})
	}
	return rows
}

// Milliseconds returns it for JSON.
func (t Timeline) Milliseconds() map[string]int64 {
	ms := make(map[string]int64, len(t))
	for _, e := range t {
		ms[e.Name+"_ms"] = e.At.Milliseconds()
	}
	return ms
}
