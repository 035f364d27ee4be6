package schedule

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// daemon starts jobs like cron(8): skipped times at once, and repeated times only once, unless
// the minute or the hour starts with *. It looks at the clock every five minutes, which is
// enough for these jobs.
type daemon struct {
	zone *time.Location
	wild bool
	due  func(local time.Time) bool
}

const look = 5 * time.Minute

// starts returns when the daemon starts the job, in seconds since 1970.
func (d daemon) starts(from, until time.Time) []int64 {
	var starts []int64
	local := func(t time.Time) time.Time { // the local time as if it were UTC
		_, offset := t.In(d.zone).Zone()
		return t.UTC().Add(time.Duration(offset) * time.Second)
	}
	seen := local(from).Add(-look) // the newest local time so far
	for t := from; t.Before(until); t = t.Add(look) {
		now := local(t)
		run := d.wild && d.due(now)
		for ; seen.Before(now); seen = seen.Add(look) {
			run = run || !d.wild && d.due(seen.Add(look))
		}
		if run {
			starts = append(starts, t.Unix())
		}
	}
	return starts
}

// A job's tick is the time for which a cron daemon starts it, all year round.
func TestYear(t *testing.T) {
	at := func(hours ...int) func(time.Time) bool {
		return func(l time.Time) bool { return l.Minute() == 30 && slices.Contains(hours, l.Hour()) }
	}
	jobs := []struct {
		text string
		wild bool
		due  func(time.Time) bool
	}{
		{"0 3 * * *", false, func(l time.Time) bool { return l.Hour() == 3 && l.Minute() == 0 }},
		{"30 1 * * *", false, at(1)},
		{"30 2 * * *", false, at(2)},
		{"30 0-4 * * *", false, at(0, 1, 2, 3, 4)},
		{"45 1,2 * * *", false, func(l time.Time) bool { return l.Minute() == 45 && (l.Hour() == 1 || l.Hour() == 2) }},
		{"15 * * * *", true, func(l time.Time) bool { return l.Minute() == 15 }},
		{"@hourly", true, func(l time.Time) bool { return l.Minute() == 0 }},
		{"*/20 2 * * *", true, func(l time.Time) bool { return l.Minute()%20 == 0 && l.Hour() == 2 }},
		{"0 */2 * * *", true, func(l time.Time) bool { return l.Minute() == 0 && l.Hour()%2 == 0 }},
		{"30 2 * * 0", false, func(l time.Time) bool { return at(2)(l) && l.Weekday() == time.Sunday }},
		{"0 9 * * MON-FRI", false, func(l time.Time) bool {
			return l.Hour() == 9 && l.Minute() == 0 && l.Weekday() != time.Saturday && l.Weekday() != time.Sunday
		}},
		{"0 0 1,31 * *", false, func(l time.Time) bool {
			return l.Hour() == 0 && l.Minute() == 0 && (l.Day() == 1 || l.Day() == 31)
		}},
		{"30 2 13 * 5", false, func(l time.Time) bool { return at(2)(l) && (l.Day() == 13 || l.Weekday() == time.Friday) }},
		{"30 2 * 1,3,10,12 *", false, func(l time.Time) bool {
			return at(2)(l) && slices.Contains([]time.Month{time.January, time.March, time.October, time.December}, l.Month())
		}},
	}
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"} {
		zone, err := time.LoadLocation(name)
		must.Succeed(t, err)
		for _, job := range jobs {
			s, err := Parse("CRON_TZ=" + name + " " + job.text)
			must.Succeed(t, err)
			starts := daemon{zone, job.wild, job.due}.starts(from.AddDate(0, -2, 0), from.AddDate(1, 2, 0))
			i, _ := slices.BinarySearch(starts, from.Unix())
			for ; starts[i] < from.AddDate(1, 0, 0).Unix(); i++ {
				checkTick(t, s, starts[i-1], starts[i], starts[i+1])
			}
		}
	}
}

// checkTick asserts for which times of the store the tick is the one of the start at.
func checkTick(t *testing.T, s *Schedule, before, at, next int64) {
	t.Helper()
	lead := func(gap int64) int64 { return min(1000*gap/4, 15*60*1000) }
	from, until := 1000*at-lead(at-before), 1000*next-lead(next-at)
	show := func(ms int64) string {
		return time.UnixMilli(ms).In(s.zone).Format("Mon 2006-01-02T15:04:05.999Z07:00")
	}
	for _, now := range []int64{from, 1000 * at, until - 1} {
		got := s.Tick(now)
		if got.At != 1000*at || got.From/1000 != from/1000 || got.Until/1000 != until/1000 || got.Period != time.Duration(next-at)*time.Second {
			t.Fatalf("%s at %s: tick %s from %s until %s, next after %s; want %s from %s until %s, next after %s", s, show(now),
				show(got.At), show(got.From), show(got.Until), got.Period, show(1000*at), show(from), show(until), time.Duration(next-at)*time.Second)
		}
	}
}

// The days on which schedules are most often wrong, with expected ticks by hand.
func TestDays(t *testing.T) {
	tests := []struct{ schedule, now, want string }{
		// A rerun in the afternoon is for the night before; the next night is another tick.
		{"0 3 * * *", "2026-05-05T16:00:00+02:00", "2026-05-05T03:00:00+02:00"},
		{"0 3 * * *", "2026-05-06T02:44:59+02:00", "2026-05-05T03:00:00+02:00"},
		{"0 3 * * *", "2026-05-06T02:45:00+02:00", "2026-05-06T03:00:00+02:00"},
		{"*/10 * * * *", "2026-05-06T02:47:29+02:00", "2026-05-06T02:40:00+02:00"},
		{"*/10 * * * *", "2026-05-06T02:47:30+02:00", "2026-05-06T02:50:00+02:00"},
		// 02:30 is skipped, and comes twice.
		{"30 2 * * *", "2026-03-29T12:00:00+02:00", "2026-03-29T03:00:00+02:00"},
		{"30 2 * * *", "2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+02:00"},
		{"30 2 * * *", "2026-10-25T02:30:00+01:00", "2026-10-25T02:30:00+02:00"},
		{"30 * * * *", "2026-10-25T02:30:00+01:00", "2026-10-25T02:30:00+01:00"},
		{"30 * * * *", "2026-03-29T03:01:00+02:00", "2026-03-29T01:30:00+01:00"},
		{"@monthly", "2026-03-31T23:00:00+02:00", "2026-03-01T00:00:00+01:00"},
		{"0 0 29 2 *", "2026-05-05T00:00:00+02:00", "2024-02-29T00:00:00+01:00"},
		{"0 0 29 2 *", "2103-05-05T00:00:00+02:00", "2096-02-29T00:00:00+01:00"},
		{"0 9 * * 1-5", "2026-11-22T12:00:00+01:00", "2026-11-20T09:00:00+01:00"},
		{"@yearly", "2026-12-31T23:46:00+01:00", "2027-01-01T00:00:00+01:00"},
	}
	for _, test := range tests {
		s, err := Parse("CRON_TZ=Europe/Berlin " + test.schedule)
		must.Succeed(t, err)
		now, want := moment(t, test.now), moment(t, test.want)
		if got := s.Tick(now); got.At != want {
			t.Errorf("%s at %s: %s, want %s", test.schedule, test.now, time.UnixMilli(got.At).In(s.zone), test.want)
		}
	}
}

func moment(t *testing.T, text string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	must.Succeed(t, err)
	return at.UnixMilli()
}

func TestRefused(t *testing.T) {
	tests := map[string]string{
		"":                           "no fields",
		"CRON_TZ=Europe/Berlin":      "no fields",
		"CRON_TZ= 0 3 * * *":         "no time zone",
		"CRON_TZ=Berlin 0 3 * * *":   "no time zone",
		"CRON_TZ=../../x 0 3 * * *":  "no time zone",
		"TZ=Europe/Berlin":           "CRON_TZ=",
		"TZ=Europe/Berlin 0 3 * * *": "CRON_TZ=",
		"@every 1h":                  "@every",
		"@reboot":                    "@reboot",
		"@daily 3":                   "@daily 3",
		"0 3 * *":                    "4 fields",
		"0 0 3 * * *":                "6 fields",
		"60 3 * * *":                 "60",
		"0 , * * *":                  "empty entry",
		"0 3, * * *":                 "empty entry",
		"0 3 * * FRY":                "fry",
		"*/0 * * * *":                "step",
		"0 3 30 2 *":                 "no such day",
		"0 3 31 4,6,9,11 *":          "no such day",
	}
	for text, want := range tests {
		if s, err := Parse(text); err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want)) {
			t.Errorf("%q: %v, %v, want %q", text, s, err, want)
		}
	}
}

// Go takes a TZ that it does not know for UTC. cron(8) knows POSIX's form, and would start the
// job at other times. A verb that reads the same file of settings needs no ticks.
func TestZoneOfTheHost(t *testing.T) {
	for zone, known := range map[string]bool{
		"": true, "UTC": true, "UTC0": true, "Europe/Berlin": true, ":Europe/Berlin": true, "/etc/localtime": true, ":/etc/localtime": true,
		"MSK-3": false, "CET-1CEST,M3.5.0,M10.5.0/3": false, ":UTC+2": false, "Europe/Berln": false, "Local": false, ":Local": false,
	} {
		t.Setenv("TZ", zone)
		s, err := Parse("0 3 * * *")
		must.Succeed(t, err)
		if got := s.UnknownZone(); (got == "") != known || got != "" && got != zone {
			t.Errorf("TZ=%s: %q is unknown", zone, got)
		}
		s, err = Parse("CRON_TZ=Europe/Berlin 0 3 * * *")
		must.Succeed(t, err)
		if got := s.UnknownZone(); got != "" {
			t.Errorf("TZ=%s with CRON_TZ: %q is unknown", zone, got)
		}
	}
}

func TestShortest(t *testing.T) {
	tests := map[string]time.Duration{
		"0 3 * * *":           24 * time.Hour,
		"0 9,17 * * *":        8 * time.Hour,
		"0 9 * * 1-5":         24 * time.Hour,
		"0 9 * * 1":           7 * 24 * time.Hour,
		"* * * * *":           time.Minute,
		"*/7 * * * *":         4 * time.Minute,
		"0 0,23 * * 1,3":      23 * time.Hour,
		"0 0,23 * * *":        time.Hour,
		"0 0 1 * *":           28 * 24 * time.Hour,
		"0 0 29 2 *":          1461 * 24 * time.Hour,
		"0 0 1 1 *":           365 * 24 * time.Hour,
		"  @daily  ":          24 * time.Hour,
		"CRON_TZ=UTC @hourly": time.Hour,
	}
	for text, want := range tests {
		s, err := Parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if got := s.Shortest(); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// The properties of ticks that stores and hosts rely on.
func FuzzTick(f *testing.F) {
	for _, text := range []string{"0 3 * * *", "CRON_TZ=Australia/Lord_Howe 45 1 * * *", "CRON_TZ=Europe/Berlin */20 2 * * *", "@weekly", "CRON_TZ=", "0 0 29 2 *", "*/3-5 1-0 ? * ,"} {
		f.Add(text, int64(1_774_746_000))
	}
	f.Fuzz(func(t *testing.T, text string, seconds int64) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		now := 1_000_000_000_000 + (seconds&(1<<31-1))*1000
		tick := s.Tick(now)
		if tick.From > now || now >= tick.Until || tick.At < tick.From || tick.At >= tick.Until || tick.Period < time.Minute {
			t.Fatalf("%q at %d: %+v", text, now, tick)
		}
		if again := s.Tick(tick.At); again != tick {
			t.Fatalf("%q: %+v, and at its own time %+v", text, tick, again)
		}
		if next := s.Tick(tick.Until); next.At != tick.At+tick.Period.Milliseconds() || next.From != tick.Until {
			t.Fatalf("%q: %+v is followed by %+v", text, tick, next)
		}
	})
}
