//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// crash measures how long after the end of a dead holder's lease the successor's command
// starts.
func crash(b *bench) {
	var late []float64
	for round := range min(b.rounds, 20) {
		late = append(late, ms(b.crashOnce(round)))
	}
	fmt.Printf("  from the end of the lease to the successor's start, ms   %s\n", summary(late))
}

func (b *bench) crashOnce(round int) time.Duration {
	leaderrun := []string{"leaderrun", "--quiet", "--ttl", "3s", "--wait", "forever", "--key", "crash", "--"}
	holder := hold(leaderrun)
	defer holder.end()
	out := b.newStamps(fmt.Sprintf("crash-%d", round))
	defer out.file.Close()
	standby := out.launch(leaderrun...)
	defer standby.end()
	b.redis.awaitListeners(2)
	time.Sleep(time.Duration(round) * 53 * time.Millisecond) // another point of the renew interval in every round
	// The elector first: it would release if its guard died before it.
	guard := holder.guard()
	must.Check(errors.Join(syscall.Kill(holder.pid(), syscall.SIGKILL), syscall.Kill(guard, syscall.SIGKILL)))
	ends := endOfLease("crash")
	standby.awaitEnd()
	return out.legs(1)[0].start - ends
}

// endOfLease returns when the lease ends, as status says, give or take half of what status
// takes.
func endOfLease(key string) time.Duration {
	before := clock()
	out, err := exec.Command("leaderrun", "status", "--key", key, "-o", "json").Output()
	must.Check(err)
	var answer struct {
		Left int64 `json:"left_ms"`
	}
	must.Check(json.Unmarshal(out, &answer))
	return (before+clock())/2 + time.Duration(answer.Left)*time.Millisecond
}
