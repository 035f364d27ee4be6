//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/location"
	"github.com/leaderrun/leaderrun/internal/test/faultnet"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
	"github.com/leaderrun/leaderrun/internal/test/timed"
)

const (
	key        = "chaos"
	jobsKey    = "chaos-jobs" // of short runs with ticks
	candidates = 3
	slots      = "40" // connections that a server allows
	killAfter  = 300 * time.Millisecond
	lookEvery  = 20 * time.Millisecond
)

// worker has a store and the candidates for one key in it, each behind a proxy.
type worker struct {
	options
	number     int
	dir, marks string
	hosts      []*host // of the candidates, and one for all newcomers; empty if all are on this process's host
	rig        *rig
	server     backend
	store      location.Store                // without a proxy
	proxies    [candidates][]*faultnet.Proxy // to each of the servers
	children   [candidates]*child
	newcomers  []*child
	came       int        // number of newcomers so far
	runs       int        // number of leaderruns so far
	records    []*records // of all candidates for the key; jobs has those of candidates with ticks
	jobs       []*records
	reported   map[timed.Wrong]bool
	found      *stats

	mu sync.Mutex
	// forgot is when the store may have lost data or its clock was set, back when that was last
	// set back, losses when data was lost, and lost when the counter of tokens was also ahead of
	// the server's clock, then or later.
	forgot  []timed.Span
	back    timed.Step
	losses  []timed.Span
	lost    []timed.Span
	excuses map[violation]string // the faults of this round that excuse a violation
}

// work does rounds until there are none left.
func work(ctx context.Context, o options, number int, dir string, rounds <-chan int) (*stats, error) {
	w := &worker{options: o, number: number, dir: dir, marks: filepath.Join(dir, "marks"), found: newStats(),
		reported: map[timed.Wrong]bool{}, excuses: map[violation]string{}}
	defer w.close()
	if err := w.open(); err != nil {
		return w.found, err
	}
	for n := range rounds {
		if err := w.round(ctx, n); err != nil {
			return w.found, fmt.Errorf("round %d: %w", n, err)
		}
	}
	return w.found, w.finish()
}

func (w *worker) open() error {
	err := os.MkdirAll(w.marks, 0o700)
	if err != nil {
		return err
	}
	addr := "127.0.0.1"
	if w.options.hosts {
		addr = serverAddr(w.number)
		if err := openNetwork(w.number); err != nil {
			return err
		}
		for i := range candidates + 1 {
			h, err := newHost(w.number, i)
			if err != nil {
				return err
			}
			w.hosts = append(w.hosts, h)
		}
	}
	servers, err := script.NewRig(addr, w.dir)
	if err != nil {
		return err
	}
	w.rig = &rig{servers, w.number, w.options.hosts}
	if err := must.Try(func() { w.server = w.world.open(w.rig) }); err != nil {
		return err
	}
	for i := range w.proxies {
		for _, server := range w.server.servers() {
			p, err := faultnet.ListenOn(addr, server)
			if err != nil {
				return err
			}
			w.proxies[i] = append(w.proxies[i], p)
		}
	}
	return must.Try(func() { w.store = open(w.server) })
}

// finish stops all candidates properly. Then no process of any tree may live.
func (w *worker) finish() error {
	end(slices.Concat(w.children[:], w.newcomers)...)
	if err := w.judge(0, 0); err != nil {
		return err
	}
	if t, ok := newest(w.marks); ok {
		for _, life := range t.lives {
			if isMark(life, w.marks) {
				w.violated(survivor, "process %d (%s) of the tree %d outlived leaderrun", life.pid, life.kind, t.token)
			}
		}
	}
	return nil
}

func (w *worker) close() {
	end(slices.Concat(w.children[:], w.newcomers)...)
	for _, p := range slices.Concat(w.proxies[:]...) {
		p.Close()
	}
	if w.store != nil {
		_ = w.store.Close()
	}
	for _, h := range w.hosts {
		h.Close()
	}
	if w.rig != nil {
		if err := w.rig.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "chaos:", err)
		}
	}
	// After a violation there may be processes that nobody else would end.
	if all, err := trees(w.marks); err == nil {
		for _, t := range all {
			for _, life := range t.lives {
				if isMark(life, w.marks) {
					_ = syscall.Kill(life.pid, syscall.SIGKILL)
				}
			}
		}
	}
}

// revive restarts every candidate that has ended.
func (w *worker) revive() error {
	w.newcomers = slices.DeleteFunc(w.newcomers, (*child).ended)
	for i, c := range w.children {
		if c != nil && !c.ended() {
			continue
		}
		var err error
		w.children[i], err = w.candidate(i, w.proxiesOf(i), "wait", "--key", key, "--wait", "forever", "--rejoin")
		if err != nil {
			return err
		}
	}
	return nil
}

// proxiesOf returns the addresses of a candidate's proxies.
func (w *worker) proxiesOf(i int) []string {
	var all []string
	for _, p := range w.proxies[i] {
		all = append(all, p.Addr())
	}
	return all
}

// comes starts a candidate for one short run, without a proxy.
func (w *worker) comes(n newcomer) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	flags, last := []string{"--key", key, "--wait", n.wait.String(), "--leftovers", "stop"}, "sleep 0.5"
	if n.job {
		flags, last = []string{"--key", jobsKey, "--wait", n.wait.String(), "--once-per", (2 * w.ttl).String(), "--tries", "100"}, n.ends
	}
	c, err := w.candidate(candidates+w.came, nil, last, flags...)
	if err != nil {
		return err
	}
	w.came++
	w.newcomers = append(w.newcomers, c)
	return nil
}

// candidate starts leaderrun. Its command writes marks if it is for the key, and ends as last
// says.
func (w *worker) candidate(who int, proxies []string, last string, flags ...string) (*child, error) {
	w.runs++
	name := filepath.Join(w.dir, fmt.Sprintf("candidate%d-%d.log", who, w.runs))
	log, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command := last
	if slices.Contains(flags, key) {
		mark := fmt.Sprintf("mark %s %d ", w.marks, who)
		command = strings.Join([]string{mark + "plain", mark + "stubborn", mark + "daemon", last}, " & ")
	}
	args := []string{"-vv", "--log-format", "json", "--prefix", prefix, "--store", w.server.url(proxies), "--ttl", w.ttl.String(), "--kill-after", killAfter.String()}
	args = slices.Concat(args, flags, []string{"--", "sh", "-c", command})
	cmd := exec.Command("leaderrun", args...)
	if w.hosts != nil {
		cmd = w.hosts[min(who, candidates)].Command("leaderrun", args...)
	}
	cmd.Stdout, cmd.Stderr = log, log
	c, err := launch(cmd)
	if err != nil {
		return nil, err
	}
	of := &w.records
	if slices.Contains(flags, jobsKey) {
		of = &w.jobs
	}
	*of = append(*of, &records{file: name, who: w.runs, child: c})
	return c, nil
}

// leadsSince reports whether the command of a candidate, not of a newcomer, writes marks, and
// did so for longer after that time than a tree lives that was being stopped then.
func (w *worker) leadsSince(instant time.Duration) bool {
	const moment = 50 * time.Millisecond
	t, ok := newest(w.marks)
	return ok && t.who < candidates && t.last > instant+killAfter+moment && clock()-t.last < moment
}

func (w *worker) round(ctx context.Context, n int) error {
	if err := w.revive(); err != nil {
		return err
	}
	before := clock()
	if err := await(ctx, "a leader", func() bool { return w.leadsSince(before) }); err != nil {
		return err
	}
	was, _ := newest(w.marks)
	begin := clock()
	faults, newcomers := w.draw(n)
	w.expect(faults)
	if err := w.inject(ctx, faults, newcomers); err != nil {
		return err
	}
	healed := clock()
	var is tree
	err := await(ctx, "a leader after the last fault, whose lease the store knows", func() bool {
		is, _ = newest(w.marks)
		return w.leadsSince(healed) && w.holds(ctx, is.token)
	})
	if err != nil {
		return err
	}
	again, err := w.unledSince(healed)
	if err != nil {
		return err
	}
	if again > 0 {
		w.found.again = append(w.found.again, ms(again))
	}
	if limit := w.limit(faults); again > limit {
		w.violated(unled, "round %d: nobody led for %s after the last fault, %s are the limit", n, again, limit)
	}
	kept := "the leader stayed"
	if is.token != was.token || is.who != was.who {
		kept = "another led"
		if !slices.ContainsFunc(faults, func(f fault) bool { return !f.kept }) {
			w.violated(stopped, "round %d: the leader with token %d lost its lease, which none of the faults demands", n, was.token)
		}
	}
	if w.excuses[overlap] != "" { // the older of two trees may still have its grace
		for until := clock() + w.ttl; clock() < until && olderLives(w.marks); {
			time.Sleep(lookEvery)
		}
	}
	if err := w.judge(healed, w.late(faults)); err != nil {
		return err
	}
	w.found.rounds++
	texts := make([]string, 0, len(faults))
	for _, f := range faults {
		texts = append(texts, f.String())
	}
	fmt.Printf("%s worker%d round %4d  %5.1f s  %s, %3.0f ms after the last fault: %s\n",
		time.Now().Format(time.TimeOnly), w.number, n, (clock() - begin).Seconds(), kept, ms(again), strings.Join(texts, "; "))
	return nil
}

// holds reports whether the store says that the lease of this token is held.
func (w *worker) holds(ctx context.Context, token int64) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*lookEvery)
	defer cancel()
	status, err := w.store.Inspect(ctx, key)
	return err == nil && status.Why == lease.Held && status.Token == token
}

// unledSince returns how long after that time the first mark was written, 0 if a tree lived
// then.
func (w *worker) unledSince(instant time.Duration) (time.Duration, error) {
	all, err := trees(w.marks)
	if err != nil {
		return 0, err
	}
	for _, t := range all { // in the order of their first marks
		if t.last > instant {
			return max(0, t.first-instant), nil
		}
	}
	return 0, nil
}

// inject injects the faults of a round and starts the newcomers, and returns when all are
// over.
func (w *worker) inject(ctx context.Context, faults []fault, newcomers []newcomer) error {
	errs := make([]error, len(faults)+len(newcomers))
	var all sync.WaitGroup
	for i, f := range faults {
		all.Go(func() {
			pause(ctx, f.after)
			errs[i] = must.Try(func() {
				undo := f.inject(ctx, w, f)
				pause(ctx, f.lasts)
				undo()
			})
		})
	}
	for i, n := range newcomers {
		all.Go(func() {
			pause(ctx, n.after)
			errs[len(faults)+i] = w.comes(n)
		})
	}
	all.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}

// expect records what the faults of a round excuse.
func (w *worker) expect(faults []fault) {
	w.excuses = map[violation]string{}
	silent := slices.ContainsFunc(faults, func(f fault) bool { return f.silences })
	for _, f := range faults {
		w.found.faults[f.name]++
		if f.twoServers && slices.Contains(w.world.has, replicas) {
			w.excuses[overlap], w.excuses[stale] = f.name, f.name
		}
		if f.uncalled && silent {
			w.excuses[overlap] = f.name + " and a leader out of reach"
		}
	}
}

// violated counts a violation, and reports whether anything excuses it.
func (w *worker) violated(v violation, form string, args ...any) (excused bool) {
	if by := w.excuses[v]; by != "" {
		w.found.excused[fmt.Sprintf("%s: %s", by, v)]++
		return true
	}
	w.found.broken[v]++
	fmt.Printf("VIOLATION "+form+"\n", args...)
	return false
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
