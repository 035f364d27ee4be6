//go:build linux

package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// fault is one fault of a round.
type fault struct {
	kind
	after, lasts time.Duration
	amount       time.Duration // of a delay in each direction, a clock's step, or a restart
	everyone     bool          // concerns all connections, not only the leader's
}

func (f fault) String() string {
	text := fmt.Sprintf("%s at %s for %s", f.name, f.after.Round(time.Millisecond), f.lasts.Round(time.Millisecond))
	if f.amount > 0 {
		text += fmt.Sprintf(" by %s", f.amount.Round(time.Millisecond))
	}
	if f.everyone {
		text += " (all)"
	}
	return text
}

// newcomer is a candidate that comes during a round: for the key, or for a job whose command
// ends in a given way.
type newcomer struct {
	after, wait time.Duration
	job         bool
	ends        string
}

// draw returns the faults and newcomers of a round. They only depend on the seed and the
// round's number.
func (w *worker) draw(round int) (faults []fault, newcomers []newcomer) {
	r := rand.New(rand.NewPCG(w.seed, uint64(round)))
	faults = []fault{w.drawn(r, w.kinds)}
	rest := slices.DeleteFunc(slices.Clone(w.kinds), func(k kind) bool {
		return k.on == processes || k.on == faults[0].on || k.dark && faults[0].dark
	})
	if len(rest) > 0 && r.IntN(2) == 0 {
		faults = append(faults, w.drawn(r, rest))
	}
	var end time.Duration
	for _, f := range faults {
		end = max(end, f.after+f.lasts)
	}
	for range 3 {
		newcomers = append(newcomers, newcomer{after: upTo(r, end+w.ttl/4), wait: time.Duration(r.IntN(2)) * w.ttl / 2})
	}
	for range 2 {
		newcomers = append(newcomers, newcomer{
			after: upTo(r, end+w.ttl/4), wait: time.Duration(r.IntN(2)) * w.ttl / 2, job: true, ends: []string{"exit 0", "exit 1"}[r.IntN(2)],
		})
	}
	return faults, newcomers
}

func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

func (w *worker) drawn(r *rand.Rand, of []kind) fault {
	f := fault{kind: of[r.IntN(len(of))], after: upTo(r, w.ttl/3), lasts: w.ttl/4 + upTo(r, w.ttl*7/4)}
	everyone := r.IntN(2) == 0
	share := r.Float64()
	between := func(low, high time.Duration) time.Duration { // each order of magnitude equally often
		return time.Duration(float64(low) * math.Pow(float64(high)/float64(low), share))
	}
	switch f.name {
	case "leader-leaves", "elector-kill", "guard-kill", "standby-kill", "store-empty": // nothing brings them back
		f.lasts = 0
	case "net-delay":
		f.amount = between(w.ttl/300, 2*w.ttl)
	case "store-clock-ahead", "store-clock-back":
		f.amount = between(w.ttl/30, 2*time.Hour)
	case "store-locked-clock-ahead":
		f.lasts, f.amount = w.ttl/4+upTo(r, w.ttl/6), w.ttl+upTo(r, w.ttl)
	}
	switch f.name {
	case "store-rollback", "store-empty", "store-lag", "store-lag-return":
		f.amount = between(w.ttl/300, w.ttl/2)
	}
	f.everyone = everyone && strings.HasPrefix(f.name, "net-")
	return f
}

// limit returns how long it may take after the last fault until somebody leads: the dead
// leader's TTL, a standby's pause, the margin, and a start on a busy machine. If the store
// no longer knows how long the lease lasts, it is one TTL more; and on a slow connection a
// request may arrive after the fault has ended.
func (w *worker) limit(faults []fault) time.Duration {
	limit := w.ttl + w.ttl/6 + w.ttl/100 + 5*time.Millisecond + 500*time.Millisecond
	if slices.ContainsFunc(faults, func(f fault) bool { return f.settles }) {
		limit += w.ttl
	}
	for _, f := range faults {
		if f.on == network {
			limit += f.amount
		}
	}
	return limit
}

// late returns how long after the last fault earlier requests may still take effect. A kernel
// repeats what a dark host does not confirm, each time after twice the pause. So the first
// repetition that arrives is not later than the host was dark.
func (w *worker) late(faults []fault) time.Duration {
	late := w.ttl/15 + 500*time.Millisecond
	for _, f := range faults {
		if f.dark {
			late += f.lasts
		}
		if f.on == network {
			late += f.amount
		}
	}
	return late
}
