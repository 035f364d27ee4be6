package run

import (
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/schedule"
	"github.com/leaderrun/leaderrun/internal/settings"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// The tick of a run: from --tick, from a schedule, from both, or the store's time.
func TestTickAt(t *testing.T) {
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC).UnixMilli()
	daily, err := schedule.Parse("CRON_TZ=UTC 0 12 * * *")
	must.Succeed(t, err)
	const hour, day = 3_600_000, 24 * time.Hour
	if TickAt(settings.Config{OncePer: day}) != nil {
		t.Error("a period's tick is not the store's time")
	}
	if tick := TickAt(settings.Config{OncePer: day, Tick: noon})(1); tick.At != noon || tick.Period != day {
		t.Errorf("by name: %+v", tick)
	}
	if tick := TickAt(settings.Config{Schedule: daily})(noon + hour); tick.At != noon || tick.Period != day || tick.From == 0 || tick.Until <= noon {
		t.Errorf("by schedule: %+v", tick)
	}
	if tick := TickAt(settings.Config{Schedule: daily, Tick: noon + hour})(1); tick.At != noon || tick.Period != day || tick.From != 0 || tick.Until != 0 {
		t.Errorf("by both: %+v", tick)
	}
	if tick := TickAt(settings.Config{Schedule: daily, Tick: 1})(noon); tick.At >= 1 {
		t.Errorf("in 1970: %+v", tick)
	}
}

// The store shows the command's name, unless it is too long.
func TestMeta(t *testing.T) {
	const around = len(`{"command":""}`)
	for n, want := range map[int]int{10: 10 + around, 4096 - around: 4096, 4096 - around + 1: len("{}")} {
		if got := meta(settings.Config{Command: []string{strings.Repeat("x", n), "s3cret"}}); len(got) != want || strings.Contains(got, "s3cret") {
			t.Errorf("of %d: %d bytes, want %d", n, len(got), want)
		}
	}
}
