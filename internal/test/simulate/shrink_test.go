package simulate

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// failed are seeds that once failed, by test: each run plays them, too. A seed brings the
// same only as long as the world throws its dice in the same order.
var failed = map[string][]uint64{
	"TestSimulations":          {86, 7532, 9968},
	"TestSimulationsOfRows":    {50, 1047, 1272},
	"TestSimulationsOfMembers": {5072},
	"TestJobs":                 {38, 461},
	"TestJobsOfRows":           {1166},
}

// seeds are those of the schedules that a test plays.
func seeds(t *testing.T, n uint64) (all []uint64) {
	if *first == 0 && n > 1 {
		all = slices.Clone(failed[t.Name()])
	}
	for seed := *first; seed < *first+n; seed++ {
		all = append(all, seed)
	}
	return all
}

// shrink leaves out of a schedule that failed one fault after the other, as long as it
// fails all the same, with any promise.
func shrink(t *testing.T, failed *world, build func(*testing.T, uint64) *world, drop []int) (*world, []int) {
	for again := true; again; {
		again = false
		for i := range failed.drawn {
			if slices.Contains(drop, i) {
				continue
			}
			without := append(slices.Clone(drop), i)
			if w := simulate(t, failed.seed, build, without...); w.failure != "" {
				failed, drop, again = w, without, true
			}
		}
	}
	slices.Sort(drop)
	return failed, drop
}

func join(numbers []int) string {
	var texts []string
	for _, n := range numbers {
		texts = append(texts, strconv.Itoa(n))
	}
	return strings.Join(texts, ",")
}
