package observe

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
)

// The metrics, in the order in which they are written.
const (
	acquired = iota
	lost
	renewals
	renewalFailures
	skips
	isLeader
	token
	ttl
	left
	lastSuccess
	runDuration
	exitCode
	killDuration
	metricCount
)

// metrics are the names and help of all metrics: readers refuse two files that
// differ in them.
var metrics = [metricCount]struct{ name, kind, help string }{
	acquired:        {"leader_acquired_total", "counter", "Leases that were acquired."},
	lost:            {"leader_lost_total", "counter", "Leases that were lost or expired while held."},
	renewals:        {"leader_renewals_total", "counter", "Renewals that the store confirmed."},
	renewalFailures: {"leader_renewal_failures_total", "counter", "Renewals without an answer that counts."},
	skips:           {"leaderrun_skips_total", "counter", "Runs in which nothing ran because somebody else led, the tick was served, the key was paused or this host was not eligible."},
	isLeader:        {"leaderrun_is_leader", "gauge", "1 while the lease is held and not lost, else 0."},
	token:           {"leaderrun_token", "gauge", "Fencing token of the newest lease that was acquired here."},
	ttl:             {"leaderrun_lease_ttl_seconds", "gauge", "Life of a lease without renewals."},
	left:            {"leaderrun_lease_left_seconds", "gauge", "Time until the lease may be somebody else's unless it is renewed."},
	lastSuccess:     {"leaderrun_last_success_timestamp_seconds", "gauge", "When the command last ended by itself with status 0."},
	runDuration:     {"leaderrun_last_run_duration_seconds", "gauge", "How long the command ran the last time."},
	exitCode:        {"leaderrun_last_run_exit_code", "gauge", "Status of the last run's command, 128+n if signal n ended it."},
	killDuration:    {"leaderrun_last_kill_duration_seconds", "gauge", "Time from the first signal of the last stop to the end of the whole tree."},
}

// values are the known values of the metrics.
type values [metricCount]struct {
	value float64
	known bool
}

func (v *values) set(metric int, value float64) {
	v[metric].value, v[metric].known = value, true
}

func (v *values) add(metric int, n float64) { v.set(metric, v[metric].value+n) }

// Metrics is a campaign.Observer that counts and measures the runs of one key.
type Metrics struct {
	key, labels string
	now         func() time.Duration

	mu     sync.Mutex
	values values
	state  elect.State
	// seen is the largest token in a denial so far, leader who was last said to lead.
	seen   int64
	leader *Leader
	// started and signalled are when the command started and got its first signal; 0 if
	// it has not.
	started, signalled time.Duration
}

// NewMetrics returns the metrics of a key, with counters starting at 0. now is the
// campaign's clock.
func NewMetrics(key string, now func() time.Duration) *Metrics {
	m := &Metrics{key: key, labels: "{" + KeyLabels(key) + "}", now: now}
	for metric := range metrics {
		if metrics[metric].kind == "counter" {
			m.values.set(metric, 0)
		}
	}
	return m
}

// KeyLabels returns the labels of a key's metrics. The class is the text before the first
// colon. A key needs no escapes.
func KeyLabels(key string) string {
	class, _, _ := strings.Cut(key, ":")
	return fmt.Sprintf(`key_class="%s",key="%s"`, class, key)
}

// Observe counts one step.
func (m *Metrics) Observe(t campaign.Transition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = t.To
	m.count(t)
	m.note(t)
	m.measure(t)
	if t.From.Leads() != t.To.Leads() {
		m.values.set(isLeader, Truth(t.To.Leads()))
	}
}

func (m *Metrics) count(t campaign.Transition) {
	switch {
	case t.Event.Kind == elect.Denied:
		m.seen = max(m.seen, t.Event.Denial.Token)
	case starts(t):
		m.values.add(acquired, 1)
		m.values.set(token, float64(t.To.Lease.Token))
		m.values.set(ttl, t.To.Lease.TTL.Seconds())
	case t.Event.Kind == elect.Renewed && t.From.Phase.HasTree():
		m.values.add(renewals, 1)
	case t.Event.Kind == elect.NoAnswer && t.From.Phase.HasTree():
		m.values.add(renewalFailures, 1)
	}
	if voided(t) {
		m.values.add(lost, 1)
	}
	if skipped(t) {
		m.values.add(skips, 1)
	}
}

func (m *Metrics) measure(t campaign.Transition) {
	if t.Event.Kind == elect.Started {
		m.started = t.Event.At
	}
	if !stopping(t.From) && stopping(t.To) {
		m.signalled = t.Event.At
	}
	if m.started != 0 && (t.Event.Kind == elect.CommandEnded || t.Event.Kind == elect.TreeGone) {
		m.values.set(runDuration, (t.Event.At - m.started).Seconds())
		m.started = 0
	}
	if m.signalled != 0 && t.Event.Kind == elect.TreeGone {
		m.values.set(killDuration, (t.Event.At - m.signalled).Seconds())
		m.signalled = 0
	}
	for _, a := range t.Actions {
		if a.Kind != elect.Release || !a.Result.Ran {
			continue
		}
		m.values.set(exitCode, float64(a.Result.Exit))
		if a.Result.Success && t.To.Releases == 1 {
			m.values.set(lastSuccess, float64(time.Now().UnixMilli())/1000)
		}
	}
}

// starts reports whether this step orders the start of the command.
func starts(t campaign.Transition) bool { return !t.From.Phase.HasTree() && t.To.Phase.HasTree() }

// voided reports whether the lease is lost or expires with this step.
func voided(t campaign.Transition) bool {
	return t.From.Phase.HasTree() && t.To.Outcome.Voids() && !t.From.Outcome.Voids()
}

func stopping(s elect.State) bool {
	return s.Phase == candidate.Stopping || s.Phase == candidate.Killing
}

// Truth returns 1 for true and 0 for false.
func Truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// snapshot returns the values that change only with events, and the largest token in a
// denial so far.
func (m *Metrics) snapshot() (v values, seen int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values, m.seen
}

// standing returns the state, and whether the lease is held now. It looks at the clock
// itself: after a SIGSTOP past the lease's end it may be called before the campaign has
// looked.
func (m *Metrics) standing() (s elect.State, held bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state, m.holds()
}

func (m *Metrics) holds() bool { return m.state.Leads() && m.now() < m.state.ValidUntil }

// live returns all values, including those that change with time.
func (m *Metrics) live() values {
	v, _ := m.snapshot()
	state, held := m.standing()
	v.set(isLeader, Truth(held))
	v.set(left, 0)
	if held {
		v.set(left, (state.ValidUntil - m.now()).Seconds())
	}
	return v
}

// format writes the values in Prometheus' text format. The libraries for it would cost up
// to two milliseconds at every start.
func format(v values, labels string) []byte {
	var b bytes.Buffer
	for i, m := range metrics {
		if v[i].known {
			fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", m.name, m.help, m.name, m.kind)
			fmt.Fprintf(&b, "%s%s %s\n", m.name, labels, strconv.FormatFloat(v[i].value, 'f', -1, 64))
		}
	}
	return b.Bytes()
}

// mostCounted is the largest count: adding 1 to a larger float64 may not change it.
const mostCounted = 1 << 53

// parse reads the output of format, also of another version. Any other text is an error.
func parse(text []byte, labels string) (values, error) {
	var v values
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "# ") {
			continue
		}
		name, number, ok := strings.Cut(line, labels+" ")
		value, err := strconv.ParseFloat(number, 64)
		if !ok || err != nil || math.IsNaN(value) || value < 0 || value > mostCounted || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
			return values{}, fmt.Errorf("line %d is not leaderrun's", i+1)
		}
		for metric := range metrics {
			if metrics[metric].name == name {
				v.set(metric, value)
			}
		}
	}
	return v, nil
}
