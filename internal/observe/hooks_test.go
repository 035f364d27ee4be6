package observe

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
)

func TestHooks(t *testing.T) {
	other := "web-1/812/" + strings.Repeat("0a", 16)
	held := func(value string, why lease.How) []elect.Event {
		return []elect.Event{{Kind: elect.Begin}, {Kind: elect.Denied, Denial: lease.Condition{Why: why, Value: value, Token: 9}}}
	}
	tests := map[string]struct {
		events []elect.Event
		want   []Hook
	}{
		"leading": {led(), []Hook{{Event: HookAcquire, Token: 7}}},
		"success": {led(ended(12*time.Second, 0)...), []Hook{{Event: HookAcquire, Token: 7}, {Event: HookEnd, Token: 7, Outcome: candidate.Exited, Status: 100}}},
		"failure": {led(ended(12*time.Second, 3)...), []Hook{{Event: HookAcquire, Token: 7}, {Event: HookEnd, Token: 7, Outcome: candidate.Exited, Status: 103}}},
		"not released": {led(
			elect.Event{Kind: elect.TreeGone, At: 12 * time.Second}, elect.Event{Kind: elect.ReleaseFailed, At: 14 * time.Second}, elect.Event{Kind: elect.Timer, At: 15 * time.Second},
			elect.Event{Kind: elect.ReleaseFailed, At: 17 * time.Second}), []Hook{{Event: HookAcquire, Token: 7}, {Event: HookEnd, Token: 7, Outcome: candidate.Exited, Status: 100}}},
		"rejoining": {led(append([]elect.Event{{Kind: elect.LeaseLost, At: 12 * time.Second}}, ended(13*time.Second, 0)...)...), []Hook{
			{Event: HookAcquire, Token: 7}, {Event: HookLost, Token: 7, Outcome: candidate.Lost}, {Event: HookEnd, Token: 7, Outcome: candidate.Lost, Status: 100}}},
		"no command": {[]elect.Event{{Kind: elect.Begin}, {Kind: elect.Granted, At: time.Second, Sent: time.Second}, {Kind: elect.StartFailed, At: time.Second}, {Kind: elect.Released, At: time.Second}},
			[]Hook{{Event: HookEnd, Outcome: candidate.NotStarted, Status: 100}}},
		"too late":    {[]elect.Event{{Kind: elect.Begin}, {Kind: elect.Granted, At: time.Minute}, {Kind: elect.Released, At: time.Minute}}, nil},
		"lost":        {led(elect.Event{Kind: elect.LeaseLost, At: 12 * time.Second}, elect.Event{Kind: elect.Timer, At: 40 * time.Second}), []Hook{{Event: HookAcquire, Token: 7}, {Event: HookLost, Token: 7, Outcome: candidate.Lost}}},
		"expired":     {led(elect.Event{Kind: elect.Timer, At: 40 * time.Second}), []Hook{{Event: HookAcquire, Token: 7}, {Event: HookLost, Token: 7, Outcome: candidate.Expired}}},
		"not started": {[]elect.Event{{Kind: elect.Begin}, {Kind: elect.Granted}, {Kind: elect.StartFailed}}, nil},
		"denied":      {held(other, lease.Held), []Hook{{Event: HookSkip, Holder: lease.Holder(other), Token: 9, Outcome: candidate.Denied}}},
		"foreign":     {held(other, lease.Foreign), []Hook{{Event: HookSkip, Outcome: candidate.Denied}}},
		"hostile":     {held("a\nLEADERRUN_STORE=x", lease.Held), []Hook{{Event: HookSkip, Outcome: candidate.Denied}}},
		"tick served": {[]elect.Event{{Kind: elect.Begin}, {Kind: elect.Denied, Denial: lease.Condition{Why: lease.Served}}}, []Hook{{Event: HookSkip, Outcome: candidate.Skipped}}},
		"away":        {[]elect.Event{{Kind: elect.Begin}, {Kind: elect.NoAnswer, Err: &lease.StoreError{Permanent: true}}}, nil},
	}
	for name, test := range tests {
		var got []Hook
		h := NewHooks(func(hook Hook) {
			if !hook.Ended.Before(hook.Started) {
				hook.Started, hook.Ended = time.Time{}, time.Time{}
			}
			got = append(got, hook)
		}, nil, func(s elect.State) int { return 100 + s.Exit.Status() })
		set := usual
		set.Rejoin = true
		observe(h, set, test.events...)
		<-h.End()
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// A call that does not return delays neither the run nor other observers. What cannot wait is
// left out.
func TestHooksDoNotBlock(t *testing.T) {
	stuck := make(chan struct{})
	calls, leftOut := 0, 0
	h := NewHooks(func(Hook) { calls++; <-stuck }, func(Hook) { leftOut++ }, nil)
	done := make(chan struct{})
	go func() {
		for range 1000 {
			observe(h, usual, led()...)
		}
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("a hook holds the run up")
	}
	close(stuck)
	if <-h.End(); calls > 20 || calls+leftOut != 1000 {
		t.Errorf("%d calls were kept, %d left out", calls, leftOut)
	}
}
