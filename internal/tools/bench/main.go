//go:build linux

// Bench measures what leaderrun costs, from outside and beside flock(1): a run, a skip, a
// hand-over, a crash, standing by, and many keys on one host. What is compared takes turns, so
// that changes of the machine's speed affect all alike. scripts/bench builds and starts it.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// bench has what every section needs.
type bench struct {
	dir    string // for files
	rounds int
	keys   int
	redis  *server
}

// section is one thing to measure. It prints what it found.
type section struct {
	name, what string
	measure    func(*bench)
}

var sections = []section{
	{"start", "a run, beside flock and the command alone", start},
	{"skip", "a run while somebody else leads, and the memory of both", skip},
	{"handover", "from the end of one command to the start of the next, beside flock", handOver},
	{"crash", "elector and guard of the holder are killed at once", crash},
	{"idle", "what a standby asks of the server", idle},
	{"scale", "many keys on one host and one server, two candidates each", scale},
}

func main() {
	b := &bench{}
	flag.IntVar(&b.rounds, "rounds", 200, "runs of each variant, and hand-overs to time")
	flag.IntVar(&b.keys, "keys", 100, "keys of section scale")
	only := flag.String("only", "start,skip,handover,crash,idle,scale", "sections to run")
	flag.Parse()
	if err := run(b, strings.Split(*only, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run runs the sections until one fails.
func run(b *bench, only []string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			failed, ok := r.(failure)
			if !ok {
				panic(r)
			}
			err = failed.error
		}
	}()
	b.dir, err = os.MkdirTemp("", "bench")
	check(err)
	defer os.RemoveAll(b.dir)
	b.redis = startRedis(b.dir)
	defer b.redis.stop()
	check(os.Setenv("LEADERRUN_STORE", "redis://127.0.0.1:"+b.redis.port))
	for _, name := range only {
		i := slices.IndexFunc(sections, func(s section) bool { return s.name == name })
		if i < 0 {
			return fmt.Errorf("there is no section %q", name)
		}
		fmt.Printf("%s: %s\n", name, sections[i].what)
		sections[i].measure(b)
	}
	return nil
}

// failure is what check panics with.
type failure struct{ error }

// check ends the benchmark if there is an error.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// patience is how long anything may take that should happen soon.
const patience = 30 * time.Second

// await waits until so returns true.
func await(what string, so func() bool) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if so() {
			return
		}
	}
	check(fmt.Errorf("waited %s for %s in vain", patience, what))
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

// at returns the value below which the given part of all values lies.
func at(values []float64, part float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}

// summary returns times in milliseconds as text.
func summary(values []float64) string {
	return fmt.Sprintf("median %7.2f   p90 %7.2f   max %7.2f", at(values, 0.5), at(values, 0.9), slices.Max(values))
}
