//go:build linux

// Stamp is the command of the benchmark's relays. It runs for a moment, and writes a line with
// the times of its start and its end, on the clock of proc.Now, to its standard output. It
// imports as little as possible, since its own start counts as time between two commands.
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
	_, _ = syscall.Write(1, line) // the reader notices a missing line
}
