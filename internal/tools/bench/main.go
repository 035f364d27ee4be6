//go:build linux

// Benchmark measures what leaderrun costs: a run compared with flock(1) and with the command
// alone, and standing by with one and with very many candidates. Everything that is compared
// takes turns in one run, so that changes of the machine's speed affect all alike.
// scripts/bench builds and starts it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

// bench has what every section needs.
type bench struct {
	dir    string // for files
	rounds int
	keys   int
	stores []string // addresses of other stores
	redis  *server
}

// section is one thing to measure. It prints what it found.
type section struct {
	name, what string
	measure    func(*bench) error
}

var sections = []section{
	{"start", "a run, beside flock and the command alone", start},
	{"peers", "a run, beside others that lock in a store", peers},
	{"stores", "a run and a hand-over with each kind of store", stores},
	{"handover", "hand-over: from the end of one command to the start of the next, beside flock", handOver},
	{"many", "hand-over among candidates in one process", many},
	{"idle", "commands of an idle standby", idle},
	{"crash", "elector and guard of the holder are killed at once", crash},
	{"crowd", "candidates that all come at one instant", crowd},
	{"host", "many leaderruns on one host", host},
	{"scale", "many keys on one Redis, in this process", scale},
	{"scale-postgres", "the same on one Postgres", scalePostgres},
}

func main() {
	rounds := flag.Int("rounds", 200, "runs of each variant, and hand-overs to time")
	keys := flag.Int("keys", 10_000, "keys of section scale, with three candidates each; 312 at most on Postgres")
	others := flag.String("stores", "", "addresses of further stores for section stores, separated by blanks")
	only := flag.String("only", "", "sections to run, separated by commas: "+strings.Join(names(), ", "))
	flag.Parse()
	if err := run(&bench{rounds: *rounds, keys: *keys, stores: strings.Fields(*others)}, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func names() (all []string) {
	for _, s := range sections {
		all = append(all, s.name)
	}
	return all
}

// run runs the sections. If one fails it goes on with the next.
func run(b *bench, only string) error {
	wanted := names()
	if only != "" {
		wanted = strings.Split(only, ",")
	}
	for _, name := range wanted {
		if !slices.Contains(names(), name) {
			return fmt.Errorf("there is no section %q: -only takes %s", name, strings.Join(names(), ", "))
		}
	}
	if b.rounds < 1 || b.keys < 1 {
		return fmt.Errorf("-rounds %d -keys %d: at least 1", b.rounds, b.keys)
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	redis, err := startRedis(dir)
	if err != nil {
		return err
	}
	defer redis.stop()
	if err := os.Setenv("LEADERRUN_STORE", redis.url()); err != nil {
		return err
	}
	b.dir, b.redis = dir, redis
	var failed []error
	for _, s := range sections {
		if !slices.Contains(wanted, s.name) {
			continue
		}
		fmt.Printf("%s: %s\n", s.name, s.what)
		if err := s.measure(b); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	return errors.Join(failed...)
}
