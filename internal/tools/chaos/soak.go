//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/proc"
	"github.com/leaderrun/leaderrun/internal/store/location"
)

const soakKeys = 50

// soaked is an elector or a guard that is watched.
type soaked struct {
	name string
	pid  int
}

// sample has the figures of every watched process, by name, and of the store, at one time.
type sample map[string]float64

// soaking has the candidates of all keys.
type soaking struct {
	options
	dir    string
	server *server
	store  location.Store
	all    [soakKeys][candidates]*child
}

// soak lets candidates lead and stand by for a long time. One key after the other changes its
// leader, except the first key, whose processes are watched.
func soak(ctx context.Context, o options, dir string) error {
	if o.world.name != redisWorld.name {
		return fmt.Errorf("-soak is for redis")
	}
	server, err := newRedis("127.0.0.1", dir, 10*soakKeys*candidates)
	if err != nil {
		return err
	}
	defer server.stop()
	store, err := open(server)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	s := &soaking{options: o, dir: dir, server: server, store: store}
	defer func() {
		for _, of := range s.all {
			end(of[:]...)
		}
	}()
	if err := s.begin(ctx); err != nil {
		return err
	}
	watched, err := watchedOf(ctx, s.all[0][:])
	if err != nil {
		return err
	}
	if err := s.changeAll(ctx); err != nil {
		return err
	}
	samples, err := s.sample(ctx, watched)
	if err != nil {
		return err
	}
	return compare(samples)
}

// begin starts all candidates, and returns when every key has a leader.
func (s *soaking) begin(ctx context.Context) error {
	for i := range s.all {
		if err := s.revive(i); err != nil {
			return err
		}
	}
	for i := range s.all {
		err := await(ctx, "a leader of "+soakKey(i), func() bool {
			st, err := s.store.Inspect(ctx, soakKey(i))
			return err == nil && st.Holder != "" && st.Why != ""
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// revive starts the candidates of a key that have ended or were never started.
func (s *soaking) revive(i int) (err error) {
	for j, c := range s.all[i] {
		if c == nil || c.ended() {
			if s.all[i][j], err = s.candidate(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// changeAll has every key but the first change its leader. After its first run the store has
// all that it keeps of a key.
func (s *soaking) changeAll(ctx context.Context) error {
	for i := 1; i < soakKeys; i++ {
		if _, err := s.store.HandOver(ctx, soakKey(i)); err != nil {
			return err
		}
	}
	for i := 1; i < soakKeys; i++ {
		if err := await(ctx, "a hand-over of "+soakKey(i), func() bool { return slices.ContainsFunc(s.all[i][:], (*child).ended) }); err != nil {
			return err
		}
	}
	return nil
}

// sample takes samples until the time is over, while another key changes its leader every
// second.
func (s *soaking) sample(ctx context.Context, watched []soaked) (samples []sample, err error) {
	fmt.Printf("%d keys with %d candidates each, TTL %s, for %s; every second another key changes its leader\n", soakKeys, candidates, s.ttl, s.options.soak)
	changes, every := 0, max(s.options.soak/120, time.Second)
	begin := clock()
	for next := begin; clock()-begin < s.options.soak; changes++ {
		if clock() >= next {
			look, err := s.server.look(watched)
			if err != nil {
				return nil, err
			}
			samples, next = append(samples, look), next+every
		}
		i := 1 + changes%(soakKeys-1)
		if err := s.revive(i); err != nil { // the last leader has ended
			return nil, err
		}
		if _, err := s.store.HandOver(ctx, soakKey(i)); err != nil {
			return nil, err
		}
		pause(ctx, time.Second)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	fmt.Printf("%d changes of leaders, %d looks\n", changes, len(samples))
	return samples, nil
}

func soakKey(i int) string { return "soak" + strconv.Itoa(i) }

func (s *soaking) candidate(i int) (*child, error) {
	log, err := os.OpenFile(filepath.Join(s.dir, "soak.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command("leaderrun", "--key", soakKey(i), "--prefix", prefix, "--store", s.server.url(nil),
		"--ttl", s.ttl.String(), "--wait", "forever", "--rejoin", "--", "sleep", "1000000")
	cmd.Stdout, cmd.Stderr = log, log
	return launch(cmd)
}

// watchedOf returns electors and guards of the leader and of a standby.
func watchedOf(ctx context.Context, of []*child) ([]soaked, error) {
	var leader, standby *child
	err := await(ctx, "guards", func() bool {
		leader, standby = nil, nil
		for _, c := range of {
			guard := c.guard()
			if guard == 0 {
				return false
			}
			if held, _ := proc.ChildrenOf(guard); len(held) > 0 {
				leader = c
			} else {
				standby = c
			}
		}
		return leader != nil && standby != nil
	})
	if err != nil {
		return nil, err
	}
	return []soaked{{"leader", leader.pid()}, {"leader's guard", leader.guard()}, {"standby", standby.pid()}, {"standby's guard", standby.guard()}}, nil
}

// look fails when one of the processes is gone.
func (s *server) look(all []soaked) (sample, error) {
	found := sample{}
	for _, p := range all {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		found[p.name+": memory, KiB (RSS)"] = field(string(status), "VmRSS:")
		found[p.name+": threads"] = field(string(status), "Threads:")
		found[p.name+": descriptors"] = float64(len(fds))
	}
	_, port, _ := strings.Cut(s.addr, ":")
	size, err := exec.Command("redis-cli", "-p", port, "DBSIZE").Output()
	if err != nil {
		return nil, err
	}
	found["store: keys"] = number(string(size))
	return found, nil
}

func field(status, name string) float64 {
	_, rest, _ := strings.Cut(status, name)
	rest, _, _ = strings.Cut(rest, "\n")
	return number(strings.TrimSuffix(rest, "kB"))
}

func number(text string) float64 {
	n, _ := strconv.ParseFloat(strings.TrimSpace(text), 64) // 0 after an error is not plausible
	return n
}

// compare compares the last third of all samples with the first. Memory may grow by a tenth
// and a MiB, since the garbage collector is slow. Go's runtime starts a thread when all
// others are in system calls, and keeps it: on a busy machine one or two may come late. The
// store may have a few wake-ups more. Nothing else may grow.
func compare(samples []sample) error {
	third := len(samples) / 3
	if third == 0 {
		return fmt.Errorf("%d looks are too few to compare", len(samples))
	}
	names := make([]string, 0, len(samples[0]))
	for name := range samples[0] {
		names = append(names, name)
	}
	slices.Sort(names)
	var grown []string
	fmt.Printf("%-36s %10s %10s\n", "median", "first third", "last third")
	for _, name := range names {
		first, last := median(samples[:third], name), median(samples[len(samples)-third:], name)
		allowed := first
		switch {
		case strings.Contains(name, "memory"):
			allowed += first/10 + 1024
		case strings.Contains(name, "threads"):
			allowed += 2
		case name == "store: keys":
			allowed += 5
		}
		fmt.Printf("%-36s %10.0f %10.0f\n", name, first, last)
		if last > allowed || first == 0 {
			grown = append(grown, name)
		}
	}
	if len(grown) > 0 {
		return fmt.Errorf("not flat: %s", strings.Join(grown, "; "))
	}
	return nil
}

func median(samples []sample, name string) float64 {
	values := make([]float64, 0, len(samples))
	for _, s := range samples {
		values = append(values, s[name])
	}
	slices.Sort(values)
	return values[len(values)/2]
}
