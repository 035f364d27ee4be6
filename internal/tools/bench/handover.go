//go:build linux

package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/proc"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// contender is a program that runs its command in one process at a time.
type contender struct {
	name          string
	args          func(key string) []string // before the command
	awaitStandbys func(key string, n int)   // until so many of its processes stand by
}

const (
	handOvers = 20 // in one relay
	// pause is how long after a hand-over a newcomer starts, so that its start does not
	// disturb it. In the rest of a command's time it begins to stand by.
	pause = 15 * time.Millisecond
)

// handOver lets flock and leaderrun take turns in relays, and prints how long they took.
func handOver(b *bench) {
	lockFile := func(key string) string { return filepath.Join(b.dir, key) }
	contenders := []contender{
		{
			"flock",
			func(key string) []string { return []string{"flock", lockFile(key)} },
			func(key string, n int) { awaitBlocked(lockFile(key), n) },
		}, {
			"leaderrun",
			func(key string) []string { return []string{"leaderrun", "--wait", "forever", "--key", key, "--"} },
			func(_ string, n int) { b.redis.awaitListeners(n + 1) },
		},
	}
	for _, n := range []int{1, 10, 50} {
		gaps := make([][]float64, len(contenders))
		for round := range max(1, b.rounds/handOvers) {
			for i, c := range contenders {
				gaps[i] = append(gaps[i], b.relay(c, fmt.Sprintf("%s-%d-%d", c.name, n, round), n)...)
			}
		}
		fmt.Printf("  %d standbys, ms\n", n)
		for i, c := range contenders {
			fmt.Printf("    %-12s %s   × flock %.2f\n", c.name, summary(gaps[i]), at(gaps[i], 0.5)/at(gaps[0], 0.5))
		}
	}
}

// relay lets a holder and n standbys hand over to each other; newcomers replace those that
// have run. It returns the times between two commands.
func (b *bench) relay(c contender, key string, n int) (gaps []float64) {
	out := b.newStamps(key)
	defer out.file.Close()
	first := hold(c.args(key))
	all, ended := []*child{first}, make(chan *child, n+handOvers+1)
	defer func() {
		for _, c := range all {
			c.end()
		}
	}()
	join := func() {
		newcomer := out.launch(c.args(key)...)
		all = append(all, newcomer)
		go func() {
			<-newcomer.over
			ended <- newcomer
		}()
	}
	for range n {
		join()
	}
	c.awaitStandbys(key, n)
	must.Check(first.letGo.Close())
	first.awaitEnd()
	for range handOvers + 1 {
		time.Sleep(pause)
		join()
		select {
		case runner := <-ended:
			must.Check(runner.err)
		case <-time.After(must.Patience):
			must.Check(errors.New("nobody took over"))
		}
	}
	legs := out.legs(handOvers + 1)
	for i := range handOvers {
		gap := legs[i+1].start - legs[i].end
		if gap <= 0 {
			must.Check(fmt.Errorf("two commands at a time, for %s", -gap))
		}
		gaps = append(gaps, ms(gap))
	}
	return gaps
}

// awaitBlocked waits until so many processes wait for the file's lock.
func awaitBlocked(path string, n int) {
	var st syscall.Stat_t
	must.Check(syscall.Stat(path, &st))
	file := fmt.Sprintf(":%d ", st.Ino)
	await(fmt.Sprintf("%d processes in flock", n), func() bool {
		table, _ := os.ReadFile("/proc/locks")
		blocked := 0
		for line := range strings.Lines(string(table)) {
			if strings.Contains(line, "-> FLOCK") && strings.Contains(line, file) {
				blocked++
			}
		}
		return blocked == n
	})
}

// clock returns the time of the clock of all stamps.
func clock() time.Duration { return time.Duration(proc.Now()) }

// stamps is a file to which commands write when they started and ended. That wakes nobody
// during the measurement.
type stamps struct{ file *os.File }

// leg is one command's time.
type leg struct{ start, end time.Duration }

func (b *bench) newStamps(name string) stamps {
	f, err := os.OpenFile(filepath.Join(b.dir, name+".stamps"), os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_RDWR, 0o600)
	must.Check(err)
	return stamps{f}
}

// launch starts a command that writes a stamp, with args before it.
func (s stamps) launch(args ...string) *child {
	cmd := exec.Command(args[0], append(args[1:len(args):len(args)], "stamp")...)
	cmd.Stdout = s.file
	return launch(cmd)
}

// legs returns n legs in the order of their starts.
func (s stamps) legs(n int) (all []leg) {
	_, err := s.file.Seek(0, 0)
	must.Check(err)
	for lines := bufio.NewScanner(s.file); lines.Scan(); {
		var l leg
		_, err := fmt.Sscan(lines.Text(), &l.start, &l.end)
		must.Check(err)
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b leg) int { return cmp.Compare(a.start, b.start) })
	if len(all) < n {
		must.Check(fmt.Errorf("%d commands left a stamp, not %d", len(all), n))
	}
	return all[:n]
}
