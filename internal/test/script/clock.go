package script

import (
	"path/filepath"

	"github.com/leaderrun/leaderrun/internal/test/fakeclock"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// SetClock gives the server its own clock, in the form of faketime(1): "+3d" and "-1h" are
// distances from this host's clock, "+0 x1.005" is half a percent too fast from the server's
// start on, and at "2030-01-02 03:04:05.6", in UTC, the clock stands still. Expiries follow,
// as after a real change.
//
// The first call restarts the server, a redis-server without data. Later calls change the clock of the
// running server. Without the program faketime the test is skipped, or fails if CI is set.
func (p *process) SetClock(clock string) {
	p.t.Helper()
	fresh := p.clock == ""
	if fresh {
		need(p.t, "faketime")
		p.clock = filepath.Join(p.t.TempDir(), "clock")
	}
	must.Succeed(p.t, fakeclock.Set(p.clock, clock))
	if fresh {
		p.env = fakeclock.Env(p.clock)
		p.Restart()
	}
}
