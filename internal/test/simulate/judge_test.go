package simulate

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// After a request has read the clock, the clock is set forward by an hour, and then the
// request's lease is written: one that is already over. Its tree must be dead when the lease
// ends by its holder's own clock.
func TestJudgeOfALeaseThatIsOverAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		step  time.Duration
		early time.Duration // than a TTL after the request, dies the tree
		want  string
	}{
		"it dies in time":       {time.Hour, time.Millisecond, ""},
		"it dies too late":      {time.Hour, 0, "I3"},
		"nobody sets the clock": {0, time.Millisecond, "I4"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorldWith(t, 1, newTable)
				p, rows := w.hosts[0].start(), w.store.(*table)
				time.Sleep(time.Second)
				now := rows.now()
				now.Up -= time.Hour.Milliseconds() - c.step.Milliseconds() // without a step of the clock the program would be wrong
				now.Settle = 0
				r := lease.Request{Key: key, Holder: w.newHolder(), TTL: p.set.TTL}
				w.stepClock(c.step, 1)
				before := w.look()
				l, err := rows.row.State.Acquire(r, now)
				must.Succeed(t, err)
				w.judge(p, fmt.Appendf(nil, `"Holder":"%s","Row"`, r.Holder), before, w.look())
				tree := &tree{p: p, lease: l}
				w.born(tree)
				time.Sleep(p.set.TTL - c.early)
				w.died(tree)
				if c.want == "" && w.failure != "" || !strings.HasPrefix(w.failure, c.want) {
					t.Errorf("%q, want %q", w.failure, c.want)
				}
			})
		})
	}
}
