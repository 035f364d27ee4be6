//go:build !race

package simulate

import (
	"slices"
	"testing"
)

const schedules = 300

// The same seed brings the same, to the nanosecond. The race detector shuffles
// goroutines.
func TestReplay(t *testing.T) {
	oneProcessor(t)
	for i, build := range slices.Repeat([]func(*testing.T, uint64) *world{newWorld, newJobs}, 5) {
		seed := uint64(i)
		a, b := simulate(t, seed, build), simulate(t, seed, build)
		if a.hash == b.hash {
			continue
		}
		for i := range min(len(a.lines), len(b.lines)) {
			if a.lines[i] != b.lines[i] {
				t.Errorf("seed %d: line %d\n%s\n%s", seed, i, a.lines[i], b.lines[i])
				break
			}
		}
	}
}
