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

	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// bench has what every section needs.
type bench struct {
	dir    string // for files
	rounds int
	keys   int
	redis  server
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
	if err := must.Try(func() { run(b, strings.Split(*only, ",")) }); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run runs the sections.
func run(b *bench, only []string) {
	dir, err := os.MkdirTemp("", "bench")
	must.Check(err)
	defer os.RemoveAll(dir)
	b.dir = dir
	rig, err := script.NewRig("127.0.0.1", dir)
	must.Check(err)
	defer func() { _ = rig.Close() }()
	b.redis = server{script.StartRedis(rig, "--appendonly", "yes")} // it writes its log to the disk
	must.Check(os.Setenv("LEADERRUN_STORE", "redis://"+b.redis.Addr))
	for _, name := range only {
		i := slices.IndexFunc(sections, func(s section) bool { return s.name == name })
		if i < 0 {
			must.Check(fmt.Errorf("there is no section %q", name))
		}
		fmt.Printf("%s: %s\n", name, sections[i].what)
		sections[i].measure(b)
	}
}

// await waits until so returns true.
func await(what string, so func() bool) {
	must.Await(&script.Rig{}, what, so) // it only ends as Check does
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
