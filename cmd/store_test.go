package cmd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// fakeStore is a store with fixed answers that records its calls.
type fakeStore struct {
	keys   map[string]lease.Status
	asked  []string
	failed error
	// damaged are the keys that cannot be read.
	damaged map[string]error
}

func (s *fakeStore) Inspect(_ context.Context, key string) (lease.Status, error) {
	status := s.keys[key]
	status.Key = key
	return status, cmp.Or(s.failed, s.damaged[key])
}

func (s *fakeStore) Follow(context.Context, lease.Status, time.Duration) error {
	return lease.ErrNoWakeups
}

func (s *fakeStore) Keys(context.Context) ([]string, error) {
	return []string{"backup", "gone", "mail", "nightly", "odd", "report", "reports"}, s.failed
}

func (s *fakeStore) HandOver(ctx context.Context, key string) (lease.Status, error) {
	s.asked = append(s.asked, "hand over "+key)
	status, err := s.Inspect(ctx, key)
	status.HandOver = status.Why == lease.Held
	return status, err
}

func (s *fakeStore) Revoke(ctx context.Context, key string, now bool) (lease.Status, error) {
	s.asked = append(s.asked, "revoke "+key)
	if now {
		s.asked = append(s.asked, "now")
	}
	return s.Inspect(ctx, key)
}

func (s *fakeStore) Pause(ctx context.Context, key string, d time.Duration, by, reason string) (lease.Status, error) {
	s.asked = append(s.asked, fmt.Sprintf("pause %s for %s", key, d))
	status, err := s.Inspect(ctx, key)
	status.Pause = lease.Pause{Since: status.Now, Until: status.Now + d.Milliseconds(), By: "ann@db1", Reason: reason}
	return status, err
}

func (s *fakeStore) Forget(ctx context.Context, key string, token bool) (lease.Status, error) {
	s.asked = append(s.asked, "forget "+key)
	if token {
		s.asked = append(s.asked, "token")
	}
	return s.Inspect(ctx, key)
}

func (s *fakeStore) Resume(ctx context.Context, key string) (lease.Status, error) {
	s.asked = append(s.asked, "resume "+key)
	return s.Inspect(ctx, key)
}

// storeAtNight returns a store with keys in every state, at three in the morning.
func storeAtNight() *fakeStore {
	const db1, db2 = "db1/4711/0123456789abcdef0123456789abcdef", "db2/99/fedcba9876543210fedcba9876543210"
	three := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC).UnixMilli()
	at := func(d time.Duration) int64 { return three + d.Milliseconds() }
	now := at(12*time.Minute + 5*time.Second)
	run := func(day int, took time.Duration, exit int, why candidate.Outcome, holder lease.Holder) lease.Run {
		start := at(time.Duration(-24*day) * time.Hour)
		return lease.Run{Token: start + 7, Tick: start, Start: start + 7, End: start + 7 + took.Milliseconds(), Exit: exit, Outcome: string(why), Host: holder.Host(), Holder: holder}
	}
	vanished := run(2, 0, 0, "", db2)
	vanished.Vanished, vanished.End = true, vanished.Start+40_000
	runs := []lease.Run{run(1, 93*time.Minute+4*time.Second, 0, candidate.Exited, db1), vanished, run(3, 1500*time.Millisecond, 143, candidate.HandedOver, db2)}
	const ttl = 30 * time.Second
	return &fakeStore{keys: map[string]lease.Status{
		"nightly": {
			Why: lease.Held, Value: db1, Holder: db1, Token: three + 9, Remaining: 24300 * time.Millisecond, TTL: ttl,
			Now: now, Since: at(9 * time.Millisecond), MinHoldUntil: at(time.Hour), Tick: at(2 * time.Millisecond), ServedTick: at(-24 * time.Hour), Starts: 1,
			Meta: `{"command":"/opt/nightly.sh"}`, Runs: runs,
		},
		"reports": {Now: now, Token: three, Tick: three, ServedTick: three, Starts: 2, Runs: runs[:1]},
		"backup":  {Why: lease.Cooldown, Value: "cooldown:" + db2, Token: three, Remaining: 61 * time.Second, TTL: ttl, Now: now, Runs: runs[1:2]},
		"brief":   {Why: lease.Cooldown, Value: db2, Token: three, Remaining: 61 * time.Second, TTL: ttl, Now: now},
		"mail":    {Why: lease.Revoked, Value: "revoked:" + db2, Holder: db2, Since: at(time.Minute), Token: three, Remaining: ttl, TTL: ttl, Now: now},
		"gone":    {Holder: db2, Since: at(-36 * time.Hour), Token: three, TTL: ttl, Now: now, Meta: `{"command":"job"}`},
		"report": {
			Now: now, Token: three, Runs: runs[:1], ServedTick: at(-24 * time.Hour), Starts: 2, Period: 24 * time.Hour,
			Candidates: []lease.Candidate{
				{Host: "db1", First: at(-20 * 24 * time.Hour), Last: at(2 * time.Millisecond)},
				{Host: "pod-x7", First: at(-24 * time.Hour), Last: at(-24 * time.Hour)},
				{Host: "db3", First: at(-20 * 24 * time.Hour), Last: at(-4*24*time.Hour + 4*time.Second)},
			},
			Pause: lease.Pause{Since: at(0), Until: at(2 * time.Hour), By: "ann@db1", Reason: "database upgrade"},
		},
		"odd": {
			Why: lease.Foreign, Value: "\x1b[2J\n\u009bodd\u202e\xff", Remaining: 0, Now: now, Token: -1,
			Meta: `{"command":"\u001b]0;x\u0007\n\u009b1m"}`, Runs: []lease.Run{{Host: "\x1b[31m", Holder: "\n/\x07/", Exit: -5, Start: -1, End: 1 << 62}},
		},
	}}
}

// listed is a fakeStore that lists its keys.
type listed struct{ *fakeStore }

func (s listed) Keys(context.Context) ([]string, error) { return slices.Sorted(maps.Keys(s.keys)), nil }
