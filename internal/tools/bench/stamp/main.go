//go:build linux

// Stamp is the command of the benchmark's relays: it runs for a moment and adds
// a line with the instants of its start and its end, on the clock of the
// deadlines, to its standard output. It imports as little as it can, since what
// it takes to start counts as time between two commands.
package main

import (
	"strconv"
	"syscall"

	"github.com/leaderrun/leaderrun/internal/proc"
)

func main() {
	start := proc.Now()
	proc.Sleep(50_000_000) // until all standbys wait
	line := append(strconv.AppendInt(nil, start, 10), ' ')
	line = append(strconv.AppendInt(line, proc.Now(), 10), '\n')
	_, _ = syscall.Write(1, line) // a line that is missing is missed by the reader
}
