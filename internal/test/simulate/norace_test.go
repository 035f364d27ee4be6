//go:build !race

package simulate

import (
	"slices"
	"testing"
)

const schedules = 200

// The same seed brings the same, to the nanosecond. The race detector shuffles
// goroutines, and so does, now and then, a kernel that takes the processor away for
// 10 ms: the Go scheduler then takes another goroutine. Two of a few runs are the
// same.
func TestReplay(t *testing.T) {
	const most = 6
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
