package cmd

import (
	"errors"
	"strings"
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
		"the next one":                          {lease.Status{Served: 9 * hour, Period: 8 * time.Hour}, 17},
		"the one that failed, whatever follows": {lease.Status{Served: 9 * hour, Period: 16 * time.Hour, Runs: []lease.Run{{Tick: 17 * hour}, {Tick: 9 * hour}}}, 17},
		"the first of two that failed":          {lease.Status{Served: 9 * hour, Period: 24 * time.Hour, Runs: []lease.Run{{Tick: 57 * hour}, {Tick: 33 * hour}}}, 33},
	} {
		if got := unserved(test.status); got != test.want*hour {
			t.Errorf("%s: %d h, want %d h", name, got/hour, test.want)
		}
	}
}

// What a collector reads: every value, and texts of others in their place.
func TestMetricsOfAllKeys(t *testing.T) {
	s := storeAtNight()
	s.damaged = map[string]error{"gone": &lease.StoreError{Op: "status", Err: errors.New("WRONGTYPE"), Permanent: true}}
	hostile := s.keys["report"]
	hostile.Pause.By, hostile.Pause.Reason = "a\"b\\", "line\nnext \xff\x1b"
	s.keys["report"] = hostile
	text, err := metricsText(t.Context(), s, "")
	if !errors.Is(err, s.damaged["gone"]) {
		t.Error(err)
	}
	golden(t, "status.openmetrics", text)
	if text, err = metricsText(t.Context(), s, "nightly"); err != nil || !strings.Contains(text, "leaderrun_key_held{key_class=\"nightly\",key=\"nightly\"} 1\n") {
		t.Errorf("%v\n%s", err, text)
	}
}
