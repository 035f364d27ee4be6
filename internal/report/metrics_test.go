package report

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/lease"
)

func TestUnserved(t *testing.T) {
	hour := time.Hour.Milliseconds()
	for name, test := range map[string]struct {
		status lease.Status
		want   int64
	}{
		"the next one":                          {lease.Status{ServedTick: 9 * hour, Period: 8 * time.Hour}, 17},
		"the one that failed, whatever follows": {lease.Status{ServedTick: 9 * hour, Period: 16 * time.Hour, Runs: []lease.Run{{Tick: 17 * hour}, {Tick: 9 * hour}}}, 17},
		"the first of two that failed":          {lease.Status{ServedTick: 9 * hour, Period: 24 * time.Hour, Runs: []lease.Run{{Tick: 57 * hour}, {Tick: 33 * hour}}}, 33},
	} {
		if got := unserved(test.status); got != test.want*hour {
			t.Errorf("%s: %d h, want %d h", name, got/hour, test.want)
		}
	}
}

// A run that was stopped has not succeeded, whatever its command says.
func TestLastSuccess(t *testing.T) {
	hour := time.Hour.Milliseconds()
	stopped := lease.Run{End: 3 * hour, Outcome: string(candidate.HandedOver)}
	ran := lease.Run{End: 2 * hour, Outcome: string(candidate.Exited)}
	for _, m := range keyMetrics {
		if m.name != "last_success_timestamp_seconds" {
			continue
		}
		if v, ok := m.value(lease.Status{Runs: []lease.Run{stopped, ran}}); !ok || v != 7200 {
			t.Errorf("%v, %t, want 7200", v, ok)
		}
		if v, ok := m.value(lease.Status{Runs: []lease.Run{stopped}}); ok {
			t.Errorf("%v", v)
		}
		return
	}
	t.Error("there is no such metric")
}
