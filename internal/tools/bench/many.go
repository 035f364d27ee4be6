//go:build linux

package main

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// many measures hand-overs between candidates in one process. Without guards, commands and
// processes this measures the store, its client and the campaign.
func many(b *bench) error {
	for _, n := range []int{1, 10, 50, 1000} {
		c, err := b.newCandidates(fmt.Sprintf("many-%d", n), 30*time.Second)
		if err != nil {
			return err
		}
		// So few that all end long before a standby asks by itself.
		r := &chain{candidates: c, wanted: min(b.rounds, 500), enough: make(chan struct{})}
		if err := errors.Join(r.among(n, b.redis), c.end()); err != nil {
			return fmt.Errorf("%d standbys: %w", n, err)
		}
		r.print(n)
	}
	return nil
}

// chain is a series of hand-overs between candidates.
type chain struct {
	*candidates
	wanted int
	enough chan struct{} // closed after so many hand-overs

	mu       sync.Mutex
	ended    time.Duration // the end of the last command
	gaps     []float64
	acquires []int64 // number until the first hand-over, and until each start
	waits    int64   // number from the first hand-over to the last
}

// among starts a holder and n standbys, and then lets the holder hand over.
func (r *chain) among(n int, redis *server) error {
	letGo := make(chan time.Time)
	defer close(letGo)
	if err := r.lead(r.handsOver, letGo); err != nil {
		return err
	}
	for range n {
		r.join(r.another())
	}
	if err := redis.awaitStandbys(n); err != nil {
		return err
	}
	r.acquires, r.waits = []int64{r.calls.acquire.Load()}, r.calls.wait.Load()
	letGo <- time.Time{}
	select {
	case <-r.enough:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("less than %d hand-overs in %s", r.wanted, patience)
	}
}

func (r *chain) another() *command {
	return &command{started: r.takesOver, ended: r.handsOver, over: briefly}
}

func (r *chain) handsOver() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = clock()
}

// takesOver records a start, and adds a newcomer in place of the candidate that has run.
func (r *chain) takesOver() {
	now := clock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.gaps) == r.wanted {
		return
	}
	r.gaps = append(r.gaps, ms(now-r.ended))
	r.acquires = append(r.acquires, r.calls.acquire.Load())
	if len(r.gaps) == r.wanted {
		r.waits = r.calls.wait.Load() - r.waits
		close(r.enough)
		return
	}
	r.join(r.another())
}

func (r *chain) print(n int) {
	var most int64
	for i := range r.gaps {
		most = max(most, r.acquires[i+1]-r.acquires[i])
	}
	per := func(calls int64) float64 { return float64(calls) / float64(len(r.gaps)) }
	fmt.Printf("  %4d standbys, ms   %s   a hand-over takes %.2f acquires, at most %d, and %.2f waits\n",
		n, summary(r.gaps), per(r.acquires[len(r.gaps)]-r.acquires[0]), most, per(r.waits))
}
