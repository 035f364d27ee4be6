//go:build linux

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// tally is what rounds have shown. Times are milliseconds.
type tally struct {
	rounds                                     int
	faults                                     map[string]int
	overlaps, survivors, disorder, late, unled int
	margins, gaps, again                       []float64
}

func newTally() *tally { return &tally{faults: map[string]int{}} }

func (t *tally) add(o *tally) {
	t.rounds += o.rounds
	for kind, n := range o.faults {
		t.faults[kind] += n
	}
	t.overlaps += o.overlaps
	t.survivors += o.survivors
	t.disorder += o.disorder
	t.late += o.late
	t.unled += o.unled
	t.margins = append(t.margins, o.margins...)
	t.gaps = append(t.gaps, o.gaps...)
	t.again = append(t.again, o.again...)
}

func (t *tally) violations() int { return t.overlaps + t.survivors + t.disorder + t.late + t.unled }

func (t *tally) print(ttl time.Duration) {
	fmt.Printf("\nrounds                                  %d, with %d changes of the leader\n", t.rounds, len(t.gaps))
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(t.faults)) {
		kinds = append(kinds, fmt.Sprintf("%s %d", kind, t.faults[kind]))
	}
	fmt.Printf("faults                                  %s\n", strings.Join(kinds, ", "))
	fmt.Printf("overlaps of two trees (I1)              %d\n", t.overlaps)
	fmt.Printf("survivors of a tree (I1)                %d\n", t.survivors)
	fmt.Printf("tokens out of order (I2)                %d\n", t.disorder)
	fmt.Printf("trees that outlived their lease (I3)    %d\n", t.late)
	fmt.Printf("rounds after which nobody led (I9)      %d\n", t.unled)
	// A tree that is killed at once leaves more than half of its lease, one that is
	// killed by the clock less.
	atOnce := func(margin float64) bool { return margin > ms(ttl)/2 }
	fmt.Printf("last mark to expiry, ms: killed at once %s\n", told(slices.DeleteFunc(slices.Clone(t.margins), func(m float64) bool { return !atOnce(m) })))
	fmt.Printf("last mark to expiry, ms: at kill-by     %s\n", told(slices.DeleteFunc(slices.Clone(t.margins), atOnce)))
	fmt.Printf("from tree to tree, ms                   %s\n", told(t.gaps))
	fmt.Printf("after the last fault, ms: to a new tree %s\n", told(t.again))
}

func told(values []float64) string {
	if len(values) == 0 {
		return "none"
	}
	sorted := slices.Sorted(slices.Values(values))
	return fmt.Sprintf("min %.1f   median %.1f   max %.1f   (n = %d)", sorted[0], sorted[len(sorted)/2], sorted[len(sorted)-1], len(sorted))
}
