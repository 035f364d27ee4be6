//go:build linux

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// violation is a promise that was not kept, as the report names it.
type violation string

const (
	overlap  violation = "overlaps of two trees (I1)"
	survivor violation = "survivors of a tree (I1)"
	disorder violation = "tokens out of order (I2)"
	early    violation = "grants while another's lease lived (I1)"
	stale    violation = "renewals of a lease that was over (I6)"
	late     violation = "trees that outlived their lease (I3)"
	twice    violation = "runs of a tick that was served"
	nobody   violation = "ticks that nobody had served"
	starved  violation = "denials by a lease that was over (I9)"
	unled    violation = "rounds after which nobody led (I9)"
	stopped  violation = "healthy leaders that were stopped"
)

var violations = []violation{overlap, survivor, disorder, early, stale, late, twice, nobody, starved, unled, stopped}

// stats are the results of the rounds. Times are in milliseconds.
type stats struct {
	rounds, calls        int
	faults               map[string]int
	broken               map[violation]int
	excused              map[string]int // by fault and violation
	margins, gaps, again []float64
	overlaps             []float64 // including those that were excused
}

func newStats() *stats {
	return &stats{faults: map[string]int{}, broken: map[violation]int{}, excused: map[string]int{}}
}

func (t *stats) add(o *stats) {
	t.rounds += o.rounds
	t.calls += o.calls
	addCounts(t.faults, o.faults)
	addCounts(t.broken, o.broken)
	addCounts(t.excused, o.excused)
	t.margins = append(t.margins, o.margins...)
	t.gaps = append(t.gaps, o.gaps...)
	t.again = append(t.again, o.again...)
	t.overlaps = append(t.overlaps, o.overlaps...)
}

func addCounts[K comparable](to, from map[K]int) {
	for k, n := range from {
		to[k] += n
	}
}

func (t *stats) violations() int {
	n := 0
	for _, count := range t.broken {
		n += count
	}
	return n
}

func (t *stats) print(ttl time.Duration) {
	fmt.Printf("\nrounds                                  %d, with %d changes of the leader and %d calls of candidates\n", t.rounds, len(t.gaps), t.calls)
	fmt.Printf("faults                                  %s\n", counts(t.faults))
	for _, v := range violations {
		fmt.Printf("%-39s %d\n", v, t.broken[v])
	}
	if len(t.excused) > 0 {
		fmt.Printf("excused                                 %s\n", counts(t.excused))
	}
	if len(t.overlaps) > 0 {
		fmt.Printf("overlaps, ms                            %s\n", summary(t.overlaps))
	}
	// After a tree was killed at once, more than half of its lease is left; after a kill at
	// kill-by it is less.
	atOnce := func(margin float64) bool { return margin > ms(ttl)/2 }
	fmt.Printf("last mark to expiry, ms: killed at once %s\n", summary(slices.DeleteFunc(slices.Clone(t.margins), func(m float64) bool { return !atOnce(m) })))
	fmt.Printf("last mark to expiry, ms: at kill-by     %s\n", summary(slices.DeleteFunc(slices.Clone(t.margins), atOnce)))
	fmt.Printf("from tree to tree, ms                   %s\n", summary(t.gaps))
	fmt.Printf("after the last fault, ms: to a new tree %s\n", summary(t.again))
}

func counts(of map[string]int) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		texts = append(texts, fmt.Sprintf("%s %d", name, of[name]))
	}
	return strings.Join(texts, ", ")
}

func summary(values []float64) string {
	if len(values) == 0 {
		return "none"
	}
	sorted := slices.Sorted(slices.Values(values))
	return fmt.Sprintf("min %.1f   median %.1f   max %.1f   (n = %d)", sorted[0], sorted[len(sorted)/2], sorted[len(sorted)-1], len(sorted))
}
