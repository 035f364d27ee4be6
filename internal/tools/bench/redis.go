//go:build linux

package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"

	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

type server struct{ *script.RedisServer }

// info asks the server for its counters. They are numbers by name, 0 for a name that it does
// not tell.
func (s server) info() func(name string) float64 {
	ctx, cancel := context.WithTimeout(context.Background(), must.Patience)
	defer cancel()
	text, _ := exec.CommandContext(ctx, "redis-cli", "-p", strconv.Itoa(s.Port), "INFO", "all").Output()
	return func(name string) (n float64) {
		for _, found := range regexp.MustCompile(`(?m)^(?:`+name+`)[:=]([0-9.]+)`).FindAllStringSubmatch(string(text), -1) {
			x, _ := strconv.ParseFloat(found[1], 64) // digits and dots only
			n += x
		}
		return n
	}
}

// What info knows.
const (
	requests  = "cmdstat_(?:eval|evalsha|blpop|hello):calls" // without those that scripts make
	processor = "used_cpu_(?:user|sys)"
)

// awaitListeners waits until n candidates listen: standbys for their turn, and holders for
// calls.
func (s server) awaitListeners(n int) {
	await(fmt.Sprintf("%d candidates that listen", n), func() bool { return int(s.info()("blocked_clients")) == n })
}
