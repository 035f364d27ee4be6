package redis

import (
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// answer reads what a script returned. It trusts nothing: the answer may not be that
// of our script, nor of a Redis at all. The first item that is missing, of
// another type or out of range makes the answer bad, and a bad answer grants
// nothing.
type answer struct {
	items []any
	bad   bool
}

// maxInt is the largest number a script can mean: Lua numbers are doubles.
const maxInt = 1 << 53

func newAnswer(v any) *answer {
	items, _ := v.([]any)
	a := &answer{items: items}
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

// duration is at most ten years, so that sums of it stay in range whatever a key
// that leaderrun did not write may say.
func (a *answer) duration(i int) time.Duration {
	const most = 10 * 365 * 24 * time.Hour
	return time.Duration(min(a.int(i), most.Milliseconds())) * time.Millisecond
}

// list is a list of texts; what is no text in it is left out.
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

// pause is that which begins with item i, fit for a terminal.
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
