// Package schedule finds the tick of a run: the instant of a cron expression that the run is
// for. It guarantees the same answer on every host for the same time and time zone, and that
// the answer is valid for the times in the [lease.Tick].
//
// It has no clock: the time that counts is the store's. Only package settings imports it.
package schedule

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // CRON_TZ must mean the same in an image without /usr/share/zoneinfo

	"github.com/robfig/cron/v3"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// Schedule is a cron expression in a time zone. It is parsed by robfig/cron, as in
// Kubernetes. Its instants are when cron(8) would start the job, also when the clocks change:
// a skipped time has the instant of the change, and of a time that comes twice the first
// counts. If the minute or the hour starts with *, a skipped time has no instant, and a time
// that comes twice has two.
type Schedule struct {
	text  string
	spec  *cron.SpecSchedule
	wild  bool    // the minute or the hour starts with *
	times []int64 // of a day, in seconds
	zone  *time.Location
}

// Parse parses five fields, or @daily and the like, after an optional CRON_TZ=ZONE; the
// default is the host's zone. The error says what is wrong, without the text.
func Parse(text string) (*Schedule, error) {
	words := strings.Fields(text)
	s := &Schedule{text: strings.Join(words, " "), zone: time.Local}
	// Not left to the parser, which panics at a zone without fields.
	if len(words) > 0 {
		if zone, named := strings.CutPrefix(words[0], "CRON_TZ="); named {
			location, err := time.LoadLocation(zone)
			if zone == "" || err != nil {
				return nil, fmt.Errorf("%q is no time zone", zone)
			}
			s.zone, words = location, words[1:]
		}
	}
	switch {
	case len(words) == 0:
		return nil, errors.New("has no fields")
	case strings.HasPrefix(words[0], "TZ="):
		return nil, errors.New("the time zone is named with CRON_TZ=")
	case words[0] == "@every":
		return nil, errors.New("@every is not supported: its ticks depend on the start")
	case !strings.HasPrefix(words[0], "@") && len(words) != 5:
		return nil, fmt.Errorf("has %d fields, not minute, hour, day, month and weekday", len(words))
	}
	for _, field := range words { // for the parser an empty one would mean never
		if slices.Contains(strings.Split(field, ","), "") {
			return nil, fmt.Errorf("has an empty entry in %q", field)
		}
	}
	read := slices.Clone(words)
	if len(read) == 5 {
		read[4] = withoutSeven(read[4])
	}
	parser := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	parsed, err := parser.Parse(strings.Join(read, " "))
	if err != nil {
		text, _, _ := strings.Cut(err.Error(), ": strconv") // "failed to parse int from L"
		return nil, errors.New(strings.Replace(text, "failed to parse int from", "it cannot have", 1))
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, errors.New("has no fixed times")
	}
	s.spec, s.times = spec, times(spec)
	s.wild = words[0] == "@hourly" || len(words) == 5 && (words[0][0] == '*' || words[1][0] == '*')
	if len(s.days(s.includes)) == 0 {
		return nil, errors.New("there is no such day")
	}
	if len(words) == 5 {
		return s, s.checkDays(words[2], words[4])
	}
	return s, nil
}

// UnknownZone returns the value of TZ if the schedule is in the host's zone and package time takes
// that value for UTC, although cron(8) may know it: POSIX has zones like MSK-3. Otherwise it
// returns "".
func (s *Schedule) UnknownZone() string {
	tz := os.Getenv("TZ")
	name := strings.TrimPrefix(tz, ":")
	_, err := time.LoadLocation(name)
	isKnown := err == nil && name != "Local" || name == "UTC0" || strings.HasPrefix(name, "/")
	if s.zone != time.Local || isKnown {
		return ""
	}
	return tz
}

// String returns the expression with single blanks.
func (s *Schedule) String() string { return s.text }

// Tick returns the tick of a run whose candidate was first answered at now, in milliseconds
// on the store's clock: the newest instant that is later than now by at most a quarter of the
// gap before it, and at most 15 minutes. So a host whose clock is ahead of the store's gets
// the tick for which it came.
func (s *Schedule) Tick(now int64) lease.Tick {
	seconds := now / 1000
	at := s.last(seconds)
	before, next := s.last(at-1), s.next(at)
	if opens := next - lead(next-at); seconds >= opens {
		before, at, next = at, next, s.next(next)
	}
	return lease.Tick{
		At: 1000 * at, From: 1000 * (at - lead(at-before)), Until: 1000 * (next - lead(next-at)),
		Period: time.Duration(next-at) * time.Second,
	}
}

// lead returns how long before its instant a tick begins, in seconds.
func lead(gap int64) int64 {
	const most = 15 * 60
	return min(gap/4, most)
}

// Shortest returns the shortest time between two instants, ignoring changes of the clocks.
func (s *Schedule) Shortest() time.Duration {
	shortest := int64(math.MaxInt64)
	for i := range s.times[1:] {
		shortest = min(shortest, s.times[i+1]-s.times[i])
	}
	days, night := s.days(s.includes), s.times[0]-s.times[len(s.times)-1]
	for i := range days[1:] {
		shortest = min(shortest, (days[i+1]-days[i])*secondsPerDay+night)
	}
	return time.Duration(shortest) * time.Second
}

const secondsPerDay = 86_400

// days returns the included days in six years, two of which have a 29th of February.
func (s *Schedule) days(included func(day int64) bool) []int64 {
	const first = 19358 // the first of January 2023
	var days []int64
	for day := int64(first); day < first+6*366; day++ {
		if included(day) {
			days = append(days, day)
		}
	}
	return days
}

// times returns the times within a day, in seconds.
func times(spec *cron.SpecSchedule) []int64 {
	var list []int64
	for hour := range 24 {
		for minute := range 60 {
			if spec.Hour&(1<<hour) != 0 && spec.Minute&(1<<minute) != 0 {
				list = append(list, int64(hour*3600+minute*60))
			}
		}
	}
	return list
}

// includes reports whether the schedule has that day, counted from 1970. If both the day and
// the weekday are restricted, one match is enough, as in crontab(5).
func (s *Schedule) includes(day int64) bool {
	const unlimited = 1 << 63 // how the parser marks *
	date := time.Unix(day*secondsPerDay, 0).UTC()
	if s.spec.Month&(1<<date.Month()) == 0 {
		return false
	}
	inMonth, inWeek := s.spec.Dom&(1<<date.Day()) != 0, s.spec.Dow&(1<<date.Weekday()) != 0
	if (s.spec.Dom|s.spec.Dow)&unlimited != 0 {
		return inMonth && inWeek
	}
	return inMonth || inWeek
}

// next returns the first instant after t, in seconds since 1970.
func (s *Schedule) next(t int64) int64 {
	for day := s.dayOf(t) - 1; ; day++ {
		for _, at := range s.instants(day) {
			if at > t {
				return at
			}
		}
	}
}

// last returns the newest instant not after t.
func (s *Schedule) last(t int64) int64 {
	for day := s.dayOf(t) + 1; ; day-- {
		for _, at := range slices.Backward(s.instants(day)) {
			if at <= t {
				return at
			}
		}
	}
}

// dayOf returns the local date at t, in days since 1970.
func (s *Schedule) dayOf(t int64) int64 { return (t + s.offset(t)) / secondsPerDay }

// instants returns the instants of a day, in order.
func (s *Schedule) instants(day int64) []int64 {
	if !s.includes(day) {
		return nil
	}
	midnight := day * secondsPerDay
	// Local time differs from UTC by less than a day.
	before, after := s.offset(midnight-secondsPerDay), s.offset(midnight+2*secondsPerDay)
	var list []int64
	for _, t := range s.times {
		if before == after {
			list = append(list, midnight+t-before)
			continue
		}
		list = append(list, s.changing(midnight+t, before, after)...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// changing returns the instants of a local time around a change of the offset.
func (s *Schedule) changing(local, before, after int64) []int64 {
	var list []int64
	if first := local - before; s.offset(first) == before {
		list = append(list, first)
	}
	if second := local - after; s.offset(second) == after {
		list = append(list, second)
	}
	switch {
	case s.wild || len(list) == 1:
		return list
	case len(list) == 2:
		return list[:1]
	}
	change, _ := time.Unix(local-before, 0).In(s.zone).ZoneBounds()
	return []int64{change.Unix()}
}

// offset returns how many seconds local time is ahead of UTC at t.
func (s *Schedule) offset(t int64) int64 {
	_, offset := time.Unix(t, 0).In(s.zone).Zone()
	return int64(offset)
}
