//go:build !race

package simulate

import (
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// schedules is the size of a sample, always the same; .ci/run runs the seeds after it.
const schedules = 20

// The same seed gives the same events, to the nanosecond. But the race detector changes the
// order of goroutines, and sometimes the kernel does: if it takes the processor away for
// 10 ms, the Go scheduler runs another goroutine. So two of some runs must be the same.
func TestReplay(t *testing.T) {
	const most = 20
	oneProcessor(t)
	for i, build := range slices.Repeat([]func(*testing.T, uint64) *world{newWorld, newJobs}, 5) {
		seed := uint64(i)
		var runs []*world
		same := func(w *world) bool {
			return slices.ContainsFunc(runs, func(x *world) bool { return x.hash == w.hash })
		}
		for w := simulate(t, seed, build); !same(w); w = simulate(t, seed, build) {
			if runs = append(runs, w); len(runs) == most {
				t.Errorf("seed %d: no two of %d runs are the same\n%s", seed, most, firstDifference(runs[0], runs[1]))
				break
			}
		}
	}
}

func firstDifference(a, b *world) string {
	for i := range min(len(a.lines), len(b.lines)) {
		if a.lines[i] != b.lines[i] {
			return a.lines[i] + "\n" + b.lines[i]
		}
	}
	return "one is longer"
}

// Forty minutes of leading and standing by, half of them with -short, without a fault: if a
// renewal left something behind, it would be there hundreds of times. The race detector would
// take longer for that than for all its schedules.
func TestNothingIsLeftBehind(t *testing.T) {
	oneProcessor(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 0)
		w.begin()
		looks := 4
		if testing.Short() {
			looks = 2
		}
		most := func() (n int) {
			for range looks {
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				n = max(n, runtime.NumGoroutine())
			}
			return n
		}
		before, after := most(), most()
		w.end()
		t.Logf("%d and %d goroutines at most; %+v", before, after, w.count)
		const slack = 5 // by chance more candidates begin or end at once
		if after > before+slack || w.failure != "" {
			t.Errorf("%d goroutines at most in the first half, %d in the second %s", before, after, w.failure)
		}
	})
}
