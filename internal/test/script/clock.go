package script

import (
	"path/filepath"

	"github.com/leaderrun/leaderrun/internal/test/fakeclock"
)

// SetClock gives the server a clock of its own, in the words of faketime(1):
// "+3d" and "-1h" are distances from this host's clock, "+0 x1.005" runs half a
// percent fast from the server's start, and at "2030-01-02 03:04:05.6", which is
// UTC, it stands still. Expiries follow, as they do after a real change.
//
// The first call restarts the server, empty. Later ones change the clock of the
// running server, which keeps what it holds. Without the program faketime the
// test is skipped; where CI is set it fails.
func (s *RedisServer) SetClock(clock string) {
	s.t.Helper()
	fresh := s.clock == ""
	if fresh {
		need(s.t, "faketime")
		s.clock = filepath.Join(s.t.TempDir(), "clock")
	}
	if err := fakeclock.Set(s.clock, clock); err != nil {
		s.t.Fatal(err)
	}
	if fresh {
		s.env = fakeclock.Env(s.clock)
		s.Restart()
	}
}
