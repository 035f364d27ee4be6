package campaign

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
)

// hosts run the same command line on one store in memory, in a synctest bubble. The
// store follows package leasestate. The scripts show the same on real processes and
// stores, with shorter times.
type hosts struct {
	t     *testing.T
	start time.Time
	// job is what the command does at its n-th start, counted from 1; crashed means that
	// its host dies with it.
	job func(ctx context.Context, n int) (exit elect.Exit, crashed bool)
	// The store refuses connections from goes to back.
	goes, back time.Duration

	mu      sync.Mutex
	state   leasestate.State
	changed chan struct{} // closed at the next change
	starts  []time.Duration
	tokens  []int64
	holders int
}

func newHosts(t *testing.T) *hosts {
	return &hosts{t: t, start: time.Now(), state: leasestate.New("k"), changed: make(chan struct{}),
		job: func(ctx context.Context, _ int) (elect.Exit, bool) { return lasts(100*time.Millisecond, 0)(ctx), false }}
}

// ends is a job that ends with a status after some time.
func ends(after time.Duration, code int) func(context.Context, int) (elect.Exit, bool) {
	return func(ctx context.Context, _ int) (elect.Exit, bool) { return lasts(after, code)(ctx), false }
}

func (h *hosts) now() leasestate.Instant {
	const epoch = 1_764_000_000_000
	ms := epoch + time.Since(h.start).Milliseconds()
	return leasestate.Instant{Boot: "b", Up: ms, Wall: ms}
}

func (h *hosts) away(op string) error {
	if at := time.Since(h.start); at < h.goes || at >= h.back {
		return nil
	}
	return &lease.StoreError{Op: op, Err: errors.New("connection refused"), Refused: true}
}

func (h *hosts) change(f func(*leasestate.State, leasestate.Instant) (lease.Lease, error)) (lease.Lease, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l, err := f(&h.state, h.now())
	close(h.changed)
	h.changed = make(chan struct{})
	return l, err
}

// run is one run of the command line on a host; set changes its settings.
func (h *hosts) run(set func(*Settings)) Result {
	return h.runOn(&host{hosts: h, end: func() {}}, set)
}

func (h *hosts) runOn(host *host, set func(*Settings)) Result {
	s := Settings{
		Settings: elect.Settings{
			Timing: elect.NewTiming(30*time.Second, 10*time.Second, 10*time.Second),
			Retry:  5 * time.Second, KillAfter: 10 * time.Second, LostGrace: time.Second, StopSignal: 15,
		},
		Now:     func() time.Duration { return time.Since(h.start) + time.Hour },
		Request: lease.Request{Key: "k", TTL: 30 * time.Second},
		NewHolder: func() lease.Holder {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.holders++
			return lease.Holder(fmt.Sprintf("host/1/%032x", h.holders))
		},
	}
	set(&s)
	s.OncePer = s.Request.Period > 0
	return Run(h.t.Context(), s, host, host, host)
}

// line runs the command line on n hosts, each some time after the previous one, since
// clocks differ, and returns their results in that order.
func (h *hosts) line(n int, apart time.Duration, set func(*Settings)) []Result {
	results := make([]Result, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { results[i] = h.run(set) })
		time.Sleep(apart)
	}
	all.Wait()
	return results
}

// host is the store and the command of one run.
type host struct {
	*hosts
	mu      sync.Mutex
	crashed bool
	end     context.CancelFunc
	// stopped delays the end of its first wait until then, as if its process were stopped.
	stopped time.Duration
}

// reaches returns an error once the host has died.
func (h *host) reaches(op string) error {
	if err := h.away(op); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.crashed {
		return &lease.StoreError{Op: op, Err: context.Canceled}
	}
	return nil
}

func (h *host) Acquire(_ context.Context, r lease.Request) (lease.Lease, error) {
	if err := h.reaches("acquire"); err != nil {
		return lease.Lease{}, err
	}
	return h.change(func(st *leasestate.State, now leasestate.Instant) (lease.Lease, error) { return st.Acquire(r, now) })
}

func (h *host) Renew(_ context.Context, l lease.Lease) (lease.Lease, error) {
	if err := h.reaches("renew"); err != nil {
		return lease.Lease{}, err
	}
	return h.change(func(st *leasestate.State, now leasestate.Instant) (lease.Lease, error) { return st.Renew(l, now) })
}

func (h *host) Release(_ context.Context, l lease.Lease, r lease.Result) error {
	if err := h.reaches("release"); err != nil {
		return err
	}
	_, err := h.change(func(st *leasestate.State, now leasestate.Instant) (lease.Lease, error) {
		return l, st.Release(l, r, now)
	})
	return err
}

func (h *host) Wait(ctx context.Context, _ string, atMost time.Duration) error {
	time.Sleep(h.stopped - time.Since(h.start))
	if err := h.reaches("wait"); err != nil {
		return err
	}
	limit, broken := time.After(atMost), make(<-chan time.Time)
	if left := h.goes - time.Since(h.start); left > 0 {
		broken = time.After(left)
	}
	for {
		h.hosts.mu.Lock()
		free, changed := h.state.Free(h.now()), h.changed
		h.hosts.mu.Unlock()
		if free {
			return nil
		}
		select {
		case <-changed:
		case <-broken:
			return h.away("wait")
		case <-limit:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (h *host) Pass(context.Context, string) error { return nil }
func (h *host) Close() error                       { return nil }

func (h *host) Start(_, _ time.Duration, l lease.Lease, report func(elect.Event)) {
	h.hosts.mu.Lock()
	h.starts, h.tokens = append(h.starts, time.Since(h.start)), append(h.tokens, l.Token)
	n := len(h.starts)
	h.hosts.mu.Unlock()
	ctx, end := context.WithCancel(context.Background())
	h.end = end
	go func() {
		report(elect.Event{Kind: elect.Started})
		exit, crashed := h.job(ctx, n)
		h.mu.Lock()
		h.crashed = crashed
		h.mu.Unlock()
		report(elect.Event{Kind: elect.TreeGone, Exit: exit})
	}()
}
func (h *host) Extend(time.Duration) {}
func (h *host) Signal(int)           { h.end() }
func (h *host) SignalRest(int)       { h.end() }
func (h *host) Kill()                { h.end() }
func (h *host) Leave()               {}
func (h *host) Observe(Transition)   {}

// count checks how many results have each outcome, with the status if the command ended by
// itself: "2 exited 9".
func (h *hosts) count(results []Result, want map[string]int) {
	h.t.Helper()
	got := map[string]int{}
	for _, r := range results {
		name := string(r.Outcome)
		if r.Outcome == elect.Exited {
			name += fmt.Sprint(" ", r.Exit.Code)
		}
		got[name]++
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		h.t.Errorf("ended as %v, want %v", got, want)
	}
}

// started checks that the starts came at these times, less than 10 ms late, with growing
// tokens.
func (h *hosts) started(want ...time.Duration) {
	h.t.Helper()
	var at []time.Duration
	for _, start := range h.starts {
		at = append(at, start.Truncate(10*time.Millisecond))
	}
	if fmt.Sprint(at) != fmt.Sprint(want) {
		h.t.Errorf("started at %v, want %v", h.starts, want)
	}
	for i := range h.tokens {
		if i > 0 && h.tokens[i] <= h.tokens[i-1] {
			h.t.Errorf("tokens %v do not grow", h.tokens)
		}
	}
}
