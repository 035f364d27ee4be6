package redis

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/script"
)

// stage is a server whose clock the test sets in Unix milliseconds.
type stage struct {
	backend
	setTime func(ms int64)
}

func miniStage(t *testing.T) *stage {
	m := startMiniredis(t)
	return &stage{
		backend: backend{addr: m.Addr(), raw: rawClient(t, m.Addr())},
		setTime: func(ms int64) { m.SetTime(time.UnixMilli(ms)) },
	}
}

func realStage(t *testing.T) *stage {
	server := script.StartRedis(t)
	return &stage{
		backend: backend{addr: server.Addr, raw: rawClient(t, server.Addr)},
		setTime: func(ms int64) {
			// In the middle of the millisecond, since the fraction is rounded.
			server.SetClock(time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05.000") + "5")
		},
	}
}

// lead grants the key to holder for 20 s on a server whose clock stands at now.
func (s *stage) lead(t *testing.T, holder string, now int64) {
	s.setTime(now)
	for _, line := range lines("SET LEASE " + holder + " PX 20s; HSET STATE token now-10s holder other acquired now-10s min_hold_until now-10s ttl_ms 40s expires now+20s") {
		s.do(t, expand(t, line, now)...)
	}
}

// In the last millisecond of a lease redis-server returns a PTTL of 0. That must not be taken
// for a lease without an expiry, which would be extended.
func TestLastMillisecondOfALease(t *testing.T) {
	t.Parallel()
	const now, left = 1_900_022_400_000, 20_000
	s := realStage(t)
	for _, holder := range []string{"other", "somebody"} {
		s.do(t, "FLUSHALL")
		s.lead(t, holder, now)
		s.setTime(now + left)
		answer, _ := s.call(t, "acquire", now).([]any)
		if len(answer) < 3 || answer[0] != int64(0) || answer[1] != int64(now+left) || answer[2] != int64(0) {
			t.Errorf("%s: %v", holder, answer)
		}
		s.setTime(now + left + 1)
		if held := s.do(t, expand(t, "EXISTS LEASE", now)...); held != int64(0) {
			t.Errorf("%s: the lease goes on", holder)
		}
	}
	s.do(t, "FLUSHALL")
	s.lead(t, "other", now)
	s.setTime(now + left)
	s.call(t, "revoke", now)
	if left := s.do(t, expand(t, "PTTL LEASE", now)...); left != int64(1) {
		t.Errorf("revoked: %v ms left", left)
	}
}

// Bounds are exact to the millisecond. The clock stands still; T+5, say, is five milliseconds
// after it.
func TestToTheMillisecond(t *testing.T) {
	t.Parallel()
	s := miniStage(t)
	self := s.names(t)
	const unreleased = "HSET STATE token T-9000 holder other acquired T-9000 min_hold_until T-9000 ttl_ms 30s "
	for _, c := range []struct {
		name          string
		now           int64
		before, call  string
		begins, after string
	}{
		{name: "the first millisecond of 2001", now: 978_307_200_000, call: "acquire settle=0", begins: "[1 "},
		{name: "before it", now: 978_307_199_999, call: "acquire settle=0", begins: "LEADERRUN TIME"},
		{name: "a settling of one millisecond", call: "acquire settle=1", begins: "[2 T+0 1 fresh"},
		{name: "a settling of more than a day", before: "HSET STATE settle_since T+0 settle_due T+86400001 settle_server SELF", call: "acquire settle=50", begins: "[2 T+0 50 fresh"},
		{name: "the marker is old", before: "SET SERVING T-90001~SELF", call: "acquire", begins: "[1 "},
		{name: "the marker is one millisecond too young", before: "SET SERVING T-90000~SELF", call: "acquire settle=50", begins: "[2 T+0 50 fresh"},
		{name: "an expiry that comes early", before: unreleased + "expires T+20", call: "acquire settle=50", begins: "[2 T+0 50 expired"},
		{name: "an expiry that comes too early", before: unreleased + "expires T+21", call: "acquire settle=10", begins: "[2 T+0 21 vanished"},
		{name: "the longest pause", before: "HSET STATE pause_since T+0 pause_until T+7776000000", call: "acquire", begins: "[5 T+0 7776000000 "},
		{name: "a longer one is none", before: "HSET STATE pause_since T+0 pause_until T+7776000001", call: "acquire settle=0", begins: "[1 "},
		{name: "a pause goes on", before: "HSET STATE pause_since T-9 pause_until T+1 served_tick T-9", call: "forget", begins: "[1 ", after: "HGET STATE served_tick = T-9"},
		{name: "a minimum hold goes on", before: "SET LEASE me PX 20s", call: "release token=T-9 nb=T+1", begins: "[1 ", after: "GET LEASE = cooldown:me"},
		{name: "the last token", before: "HSET STATE token 9007199254739999", call: "acquire settle=0", begins: "[1 T+0 9007199254740000 "},
		{name: "the last token, to revoke", before: "HSET STATE token 9007199254739999", call: "revoke now=1", begins: "[1 ", after: "HGET STATE token = 9007199254740000"},
		{name: "the largest number is shown", before: "HSET STATE served_tick 9007199254740000", call: "status", begins: "[1 T+0   0  0 0 0 0 0 9007199254740000 "},
		{name: "the marker is kept for 34 days", call: "acquire settle=0", begins: "[1 ", after: "PTTL SERVING = 2937600000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := cmp.Or(c.now, 1_900_022_400_000)
			s.do(t, "FLUSHALL")
			s.setTime(now)
			times := regexp.MustCompile(`\bT[+-]\d+`)
			exact := func(text string) string {
				return times.ReplaceAllStringFunc(strings.ReplaceAll(text, "SELF", self), func(at string) string {
					n, _ := strconv.ParseInt(at[1:], 10, 64)
					return strconv.FormatInt(now+n, 10)
				})
			}
			if c.before != "" {
				s.do(t, expand(t, exact(c.before), now)...)
			}
			if got := fmt.Sprint(s.call(t, exact(c.call), now)); !strings.HasPrefix(got, exact(c.begins)) {
				t.Errorf("%s answers %s, want %s", c.call, got, exact(c.begins))
			}
			command, want, _ := strings.Cut(exact(c.after), " = ")
			if c.after == "" {
				return
			}
			if got, want := fmt.Sprint(s.do(t, expand(t, command, now)...)), expand(t, want, now)[0]; got != want {
				t.Errorf("%s answers %s, want %s", command, got, want)
			}
		})
	}
}
