//go:build linux

// Chaos runs leaderrun against a real store, and injects faults into both, round after round.
// The commands record when they are alive. Chaos checks by these records that no two trees of
// a key lived at once, that nothing of a tree survived, that tokens grew, and how long nobody
// led. scripts/chaos builds and starts it.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/proc"
)

type options struct {
	rounds, workers int
	world           world
	faults          string
	kinds           []kind // of faults
	hosts           bool   // every candidate has its own host
	seed            uint64
	ttl             time.Duration
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 30, "rounds in all")
	flag.IntVar(&o.workers, "workers", 4, "stores, each with candidates of its own, that have faults at the same time")
	name := flag.String("store", redisWorld.name, "one of "+worldNames())
	flag.StringVar(&o.faults, "faults", "", "only faults whose whole names this regular expression matches")
	flag.BoolVar(&o.hosts, "hosts", false, "every candidate in a network namespace of its own; this process must be alone in one")
	flag.Uint64Var(&o.seed, "seed", 0, "what decides the faults of every round; 0: a random one")
	flag.Parse()
	if o.seed == 0 {
		o.seed = rand.Uint64()
	}
	var err error
	if o.world, err = worldOf(*name); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
	o.ttl = o.world.ttl
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := runAll(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		stop()
		os.Exit(1)
	}
}

func runAll(ctx context.Context, o options) error {
	if o.rounds < 1 || o.workers < 1 {
		return fmt.Errorf("-rounds and -workers are at least 1")
	}
	var err error
	if o.kinds, err = kindsLike(o.faults, o.world, o.hosts); err != nil {
		return err
	}
	if o.hosts {
		if err := openHere(); err != nil {
			return err
		}
	}
	patience = max(patience, 6*o.ttl)
	dir, err := os.MkdirTemp("", "chaos")
	if err == nil {
		err = os.Chmod(dir, 0o755) //nolint:gosec // servers of other users read their folders in it
	}
	if err != nil {
		return err
	}
	if err := chaos(ctx, o, dir); err != nil {
		return fmt.Errorf("%w\n  the same faults again: scripts/chaos -store %s -rounds %d -workers %d -faults '%s' -seed %d\n  what everybody wrote: %s",
			err, o.world.name, o.rounds, o.workers, o.faults, o.seed, dir)
	}
	return os.RemoveAll(dir)
}

// chaos runs the workers; each takes the next round when it is free.
func chaos(ctx context.Context, o options, dir string) error {
	fmt.Printf("%d rounds on %s, TTL %s, seed %d\n", o.rounds, o.world.name, o.ttl, o.seed)
	if !o.hosts {
		fmt.Println("no host goes dark: that takes root, and the right to make network namespaces")
	}
	rounds := make(chan int, o.rounds)
	for i := range o.rounds {
		rounds <- i + 1
	}
	close(rounds)
	var (
		total   = newStats()
		workers sync.WaitGroup
		mu      sync.Mutex
		failed  error
	)
	for i := range min(o.workers, o.rounds) {
		workers.Go(func() {
			found, err := work(ctx, o, i, fmt.Sprintf("%s/worker%d", dir, i), rounds)
			mu.Lock()
			defer mu.Unlock()
			total.add(found)
			if err != nil && failed == nil {
				failed = fmt.Errorf("worker %d: %w", i, err)
			}
		})
	}
	workers.Wait()
	total.print(o.ttl)
	if failed != nil {
		return failed
	}
	if n := total.violations(); n > 0 {
		return fmt.Errorf("%d violations", n)
	}
	return nil
}

// clock returns the time of the clock of all marks.
func clock() time.Duration { return time.Duration(proc.Now()) }

// patience is how long anything may take that should happen soon.
var patience = 30 * time.Second

// await waits until so returns true.
func await(ctx context.Context, what string, so func() bool) error {
	for deadline := clock() + patience; clock() < deadline; {
		if so() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return fmt.Errorf("waited %s in vain for %s", patience, what)
}
