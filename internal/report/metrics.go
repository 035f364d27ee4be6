package report

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/observe"
)

// keyMetrics are the metrics of status -o openmetrics for each key; ok is false if the
// store does not know the value. The metrics that runs export have other names.
var keyMetrics = []struct {
	name, help string
	value      func(s lease.Status) (v float64, ok bool)
}{
	{"held", "1 while somebody leads, else 0.", func(s lease.Status) (float64, bool) {
		return observe.Truth(s.Why == lease.Held), s.Why != lease.Unreadable
	}},
	{"paused", "1 while an operator wants nobody to lead, else 0.", func(s lease.Status) (float64, bool) {
		return observe.Truth(s.Pause != (lease.Pause{})), s.Why != lease.Unreadable
	}},
	{"pause_left_seconds", "Time until the pause ends.", func(s lease.Status) (float64, bool) {
		return s.Pause.Left(s.Now).Seconds(), s.Pause != lease.Pause{}
	}},
	{"token", "Fencing token of the newest lease.", func(s lease.Status) (float64, bool) {
		return float64(s.Token), s.Token > 0
	}},
	{"last_success_timestamp_seconds", "When the newest run that succeeded ended, of the last 20.", func(s lease.Status) (float64, bool) {
		for _, r := range s.Runs {
			if succeeded(r) {
				return seconds(r.End), lease.ValidTime(r.End)
			}
		}
		return 0, false
	}},
	{"last_run_exit_code", "Status of the newest run, 128+n if signal n ended it; none if it vanished.", func(s lease.Status) (float64, bool) {
		if len(s.Runs) == 0 || s.Runs[0].Vanished {
			return 0, false
		}
		return float64(s.Runs[0].Exit), true
	}},
	{"last_run_vanished", "1 if nobody has said how the newest run ended, else 0.", func(s lease.Status) (float64, bool) {
		return observe.Truth(len(s.Runs) > 0 && s.Runs[0].Vanished), len(s.Runs) > 0
	}},
	{"last_run_duration_seconds", "How long the newest run took.", func(s lease.Status) (float64, bool) {
		if len(s.Runs) == 0 || s.Runs[0].Vanished {
			return 0, false
		}
		return between(s.Runs[0].Start, s.Runs[0].End).Seconds(), true
	}},
	{"tick_starts", "Runs that were started for the newest tick.", func(s lease.Status) (float64, bool) {
		return float64(s.Starts), s.Period > 0
	}},
	{"tick_period_seconds", "Distance of ticks, as the newest run with --once-per had it.", func(s lease.Status) (float64, bool) {
		return s.Period.Seconds(), s.Period > 0
	}},
	{"tick_due_seconds", "Time since the tick was due that follows the newest served one, negative before.", func(s lease.Status) (float64, bool) {
		return seconds(s.Now - unserved(s)), s.Period > 0 && lease.ValidTime(s.ServedTick) && lease.ValidTime(s.Now)
	}},
}

// unserved returns when the first tick after the newest served one was or will be due:
// that of a failed run, if there is one, else one period later.
func unserved(s lease.Status) int64 {
	due := int64(math.MaxInt64)
	for _, r := range s.Runs {
		if r.Tick > s.ServedTick {
			due = min(due, r.Tick)
		}
	}
	if due == math.MaxInt64 {
		return s.ServedTick + s.Period.Milliseconds()
	}
	return due
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func seconds(ms int64) float64 { return float64(ms) / 1000 }

// WriteMetrics writes the metrics of all keys.
func WriteMetrics(b *bytes.Buffer, all []lease.Status) {
	for _, m := range keyMetrics {
		var samples bytes.Buffer
		for _, s := range all {
			if v, ok := m.value(s); ok {
				fmt.Fprintf(&samples, "leaderrun_key_%s{%s} %s\n", m.name, observe.KeyLabels(s.Key), number(v))
			}
		}
		writeFamily(b, m.name, m.help, samples.Bytes())
	}
	var samples bytes.Buffer
	for _, s := range all {
		if s.Pause != (lease.Pause{}) {
			fmt.Fprintf(&samples, "leaderrun_key_pause_reason{%s,by=\"%s\",reason=\"%s\"} 1\n", observe.KeyLabels(s.Key), label(s.Pause.By), label(s.Pause.Reason))
		}
	}
	writeFamily(b, "pause_reason", "Always 1: who paused the key, and why.", samples.Bytes())
	writeCandidates(b, all)
	b.WriteString("# EOF\n")
}

// writeCandidates writes when each host last came, except hosts that may never return.
func writeCandidates(b *bytes.Buffer, all []lease.Status) {
	var samples bytes.Buffer
	for _, s := range all {
		for _, c := range s.Candidates {
			if recurs(c, s.Period) {
				fmt.Fprintf(&samples, "leaderrun_key_candidate_last_timestamp_seconds{%s,host=\"%s\"} %s\n", observe.KeyLabels(s.Key), label(c.Host), number(seconds(c.Last)))
			}
		}
	}
	writeFamily(b, "candidate_last_timestamp_seconds", "When a host last came for a tick, to the hour, of those that came for more than one.", samples.Bytes())
}

func writeFamily(b *bytes.Buffer, name, help string, samples []byte) {
	fmt.Fprintf(b, "# HELP leaderrun_key_%s %s\n# TYPE leaderrun_key_%s gauge\n%s", name, help, name, samples)
}

// label quotes any text as a label value.
func label(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(observe.Printable(text))
}
