//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// contender is a program that runs its command in one process at a time.
type contender struct {
	name string
	// args come before the command.
	args func(key string) []string
	// awaitStandbys waits until so many of its processes stand by.
	awaitStandbys func(key string, n int) error
}

const (
	handOvers = 20 // in one relay
	// pause is how long after a hand-over a newcomer starts, so that its start does not
	// disturb it. In the rest of a command's time it begins to stand by.
	pause = 15 * time.Millisecond
)

// handOver lets flock and leaderrun take turns in relays.
func handOver(b *bench) error {
	lockFile := func(key string) string { return filepath.Join(b.dir, key) }
	contenders := []contender{
		{
			"flock",
			func(key string) []string { return []string{"flock", lockFile(key)} },
			func(key string, n int) error { return awaitBlocked(lockFile(key), n) },
		}, {
			"leaderrun",
			func(key string) []string { return []string{"leaderrun", "--wait", "forever", "--key", key, "--"} },
			func(_ string, n int) error { return b.redis.awaitStandbys(n) },
		},
	}
	if err := b.compareRelays(contenders, 1, 10, 50); err != nil {
		return err
	}
	return constant(b)
}

// compareRelays lets the contenders take turns in relays, for each number of standbys, and
// prints how long they took compared with the first one.
func (b *bench) compareRelays(contenders []contender, standbys ...int) error {
	for _, n := range standbys {
		gaps := make([][]float64, len(contenders))
		var ratios []float64
		for round := range max(1, b.rounds/handOvers) {
			var medians []float64
			for i, c := range contenders {
				some, err := b.relay(c, fmt.Sprintf("%s-%d-%d", c.name, n, round), n)
				if err != nil {
					return fmt.Errorf("%s, %d standbys: %w", c.name, n, err)
				}
				gaps[i] = append(gaps[i], some...)
				medians = append(medians, at(some, 0.5))
			}
			ratios = append(ratios, medians[1]/medians[0])
		}
		fmt.Printf("  %d standbys, ms\n", n)
		for i, c := range contenders {
			median, flocks := at(gaps[i], 0.5), at(gaps[0], 0.5)
			fmt.Printf("    %-12s %s   × flock %.2f, %+.2f ms\n", c.name, summary(gaps[i]), median/flocks, median-flocks)
		}
		fmt.Printf("    %s × flock, relay by relay: %s\n", contenders[1].name, spread(ratios))
	}
	return nil
}

// relay lets a holder and n standbys hand over to each other; newcomers replace those that
// have run. It returns the times between two commands.
func (b *bench) relay(c contender, key string, n int) (gaps []float64, err error) {
	out, err := b.newStamps(key)
	if err != nil {
		return nil, err
	}
	defer out.file.Close()
	first, err := hold(c.args(key))
	if err != nil {
		return nil, err
	}
	all, ended := []*child{first}, make(chan *child, n+handOvers+1)
	defer func() { end(all...) }()
	join := func() error {
		newcomer, err := out.launch(c.args(key)...)
		if err != nil {
			return err
		}
		all = append(all, newcomer)
		go func() {
			<-newcomer.over
			ended <- newcomer
		}()
		return nil
	}
	for range n {
		if err := join(); err != nil {
			return nil, err
		}
	}
	if err := c.awaitStandbys(key, n); err != nil {
		return nil, err
	}
	if err := first.letGo.Close(); err != nil {
		return nil, err
	}
	if err := first.awaitEnd(); err != nil {
		return nil, err
	}
	for range handOvers + 1 {
		time.Sleep(pause)
		if err := join(); err != nil {
			return nil, err
		}
		select {
		case runner := <-ended:
			if runner.err != nil {
				return nil, runner.err
			}
		case <-time.After(patience):
			return nil, errors.New("nobody took over")
		}
	}
	legs, err := out.legs(handOvers + 1)
	if err != nil {
		return nil, err
	}
	for i := range handOvers {
		gap := legs[i+1].start - legs[i].end
		if gap <= 0 {
			return nil, fmt.Errorf("two commands at a time, for %s", -gap)
		}
		gaps = append(gaps, ms(gap))
	}
	return gaps, nil
}

// awaitBlocked waits until so many processes wait for the file's lock.
func awaitBlocked(path string, n int) error {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return err
	}
	file := fmt.Sprintf(":%d ", st.Ino)
	return await(fmt.Sprintf("%d processes in flock", n), func() (bool, error) {
		table, err := os.ReadFile("/proc/locks")
		blocked := 0
		for line := range strings.Lines(string(table)) {
			if strings.Contains(line, "-> FLOCK") && strings.Contains(line, file) {
				blocked++
			}
		}
		return blocked == n, err
	})
}

// constant prints how long it takes to start and end the command that writes stamps, which is
// a part of every hand-over.
func constant(b *bench) error {
	out, err := b.newStamps("constant")
	if err != nil {
		return err
	}
	defer out.file.Close()
	var forked, reaped []time.Duration
	for range b.rounds {
		forked = append(forked, clock())
		c, err := out.launch()
		if err != nil {
			return err
		}
		if err := c.awaitEnd(); err != nil {
			return err
		}
		reaped = append(reaped, clock())
	}
	legs, err := out.legs(b.rounds)
	if err != nil {
		return err
	}
	var before, after []float64
	for i, l := range legs {
		before, after = append(before, ms(l.start-forked[i])), append(after, ms(reaped[i]-l.end))
	}
	fmt.Printf("  in each of them: %.2f ms from the command's fork to its first stamp, %.2f ms from its last one until it is reaped\n", at(before, 0.5), at(after, 0.5))
	return nil
}

// spread says how far apart the values are.
func spread(values []float64) string {
	return fmt.Sprintf("least %.2f, median %.2f, most %.2f", slices.Min(values), at(values, 0.5), slices.Max(values))
}
