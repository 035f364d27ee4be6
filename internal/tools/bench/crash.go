//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/proc"
)

const (
	crashKey = "crash"
	crashTTL = time.Second
)

// crash measures how long after the expiry of a dead holder's lease the
// successor's command starts.
func crash(b *bench) error {
	store, err := b.redis.open()
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	var late []float64
	rounds := min(b.rounds, 20)
	for round := range rounds {
		took, err := b.crashOnce(store, round)
		if err != nil { // on a busy machine such a short lease is soon lost
			fmt.Printf("  round %d does not count: %v\n", round, err)
			continue
		}
		late = append(late, ms(took))
	}
	if len(late) <= rounds/2 {
		return fmt.Errorf("%d of %d rounds count", len(late), rounds)
	}
	fmt.Printf("  from expiry to the successor's start, ms   %s\n", summary(late))
	return nil
}

func (b *bench) crashOnce(store lease.Store, round int) (time.Duration, error) {
	leaderrun := []string{"leaderrun", "--quiet", "--ttl", crashTTL.String(), "--wait", "forever", "--key", crashKey, "--"}
	holder, err := hold(leaderrun)
	if err != nil {
		return 0, err
	}
	defer end(holder)
	out, err := b.newStamps(fmt.Sprintf("crash-%d", round))
	if err != nil {
		return 0, err
	}
	defer out.file.Close()
	standby, err := out.launch(leaderrun...)
	if err != nil {
		return 0, err
	}
	defer end(standby)
	if err := b.redis.awaitStandbys(1); err != nil {
		return 0, err
	}
	time.Sleep(time.Duration(round) * 17 * time.Millisecond) // another point of the renew interval in every round

	guards, _ := proc.ChildrenOf(holder.pid())
	if len(guards) != 1 {
		return 0, fmt.Errorf("the elector has the children %v, not a guard alone", guards)
	}
	// The elector first: it would release if its guard died before it.
	if err := errors.Join(syscall.Kill(holder.pid(), syscall.SIGKILL), syscall.Kill(guards[0], syscall.SIGKILL)); err != nil {
		return 0, err
	}
	expiry, err := expiry(store)
	if err != nil {
		return 0, err
	}
	if err := standby.awaitEnd(); err != nil {
		return 0, err
	}
	legs, err := out.legs(1)
	if err != nil {
		return 0, err
	}
	return legs[0].start - expiry, nil
}

// expiry returns when the lease runs out, to the millisecond, as a denied acquire says.
func expiry(store lease.Store) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), crashTTL)
	defer cancel()
	before := clock()
	_, err := store.Acquire(ctx, lease.Request{Key: crashKey, Holder: newHolder(), TTL: crashTTL, Meta: "{}"})
	after := clock()
	if err == nil {
		return 0, errors.New("the dead holder's lease was free at once")
	}
	held, ok := errors.AsType[*lease.HeldError](err)
	if !ok {
		return 0, err
	}
	return (before+after)/2 + held.Remaining, nil
}
