package redis

import (
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// answer reads what a script returned. It trusts nothing, since the answer may come from
// another script or another program. An item that is missing, of another type or out of
// range makes the answer bad, and a bad answer grants nothing.
type answer struct {
	server string // the address of the one that gave it
	items  []any
	bad    bool
}

// maxInt is the largest exact number of a script: Lua's numbers are doubles.
const maxInt = 1 << 53

func newAnswer(server string, v any) *answer {
	items, _ := v.([]any)
	a := &answer{server: server, items: items}
	a.int(0) // code
	a.int(1) // now
	return a
}

func (a *answer) int(i int) int64 {
	if i < len(a.items) {
		if n, ok := a.items[i].(int64); ok && 0 <= n && n <= maxInt {
			return n
		}
	}
	a.bad = true
	return -1
}

func (a *answer) str(i int) string {
	if i < len(a.items) {
		if s, ok := a.items[i].(string); ok {
			return s
		}
	}
	a.bad = true
	return ""
}

// duration returns item i, which is in milliseconds, as ten years at most: sums of durations stay
// in range even if leaderrun did not write the key.
func (a *answer) duration(i int) time.Duration {
	const most = 10 * 365 * 24 * time.Hour
	return time.Duration(min(a.int(i), most.Milliseconds())) * time.Millisecond
}

// list returns the texts in a list, without its other items.
func (a *answer) list(i int) (texts []string) {
	if i < len(a.items) {
		if items, ok := a.items[i].([]any); ok {
			for _, item := range items {
				if s, ok := item.(string); ok {
					texts = append(texts, s)
				}
			}
			return texts
		}
	}
	a.bad = true
	return nil
}

// pause returns the pause that begins with item i, safe for a terminal.
func (a *answer) pause(i int) lease.Pause {
	return lease.Pause{Since: a.int(i), Until: a.int(i + 1), By: a.str(i + 2), Reason: a.str(i + 3)}.Going(a.int(1))
}

func (a *answer) heldReason(i int) lease.HeldReason {
	why := lease.HeldReason(a.str(i))
	switch why {
	case lease.HeldLeader, lease.HeldCooldown, lease.HeldRevoked, lease.HeldForeign:
		return why
	}
	a.bad = true
	return ""
}

func (a *answer) settleReason(i int) lease.SettleReason {
	why := lease.SettleReason(a.str(i))
	switch why {
	case lease.SettleFresh, lease.SettleRollback, lease.SettleVanished, lease.SettleExpired, lease.SettleRestarted:
		return why
	}
	a.bad = true
	return ""
}
