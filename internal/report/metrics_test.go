package report

import (
	"testing"
	"time"

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
