//go:build linux

package main

import (
	"fmt"
	"os"
	"time"
)

const (
	leaders    = 200
	leadersTTL = 15 * time.Second
	watched    = 2 * leadersTTL
)

// host lets many leaders, each with its own key, run on one host, and measures what they cost
// and what a waiting guard costs.
func host(*bench) error {
	var all []*child
	defer func() { end(all...) }()
	var memory []float64
	for n := range leaders {
		c, err := hold([]string{"leaderrun", "--ttl", leadersTTL.String(), "--key", fmt.Sprintf("host-%d", n), "--"})
		if err != nil {
			return err
		}
		all = append(all, c)
		if n == 0 {
			memory = append(memory, pss(c))
		}
	}
	var sum, guards float64
	for _, c := range all {
		sum += pss(c)
		guards -= guardsTime(c)
	}
	memory = append(memory, sum)
	time.Sleep(watched)
	for _, c := range all {
		guards += guardsTime(c)
	}
	fmt.Printf("  memory of elector and guard, PSS in MB: alone %.1f, %d of them %.0f, each further one %.1f\n",
		memory[0], leaders, memory[1], (memory[1]-memory[0])/(leaders-1))
	// A renewal moves the guard's kill-by, three times per TTL.
	const renewals = leaders * 3 * float64(watched/leadersTTL)
	fmt.Printf("  a waiting guard's processor: %.1f µs per renewal, %.1f s in a week at a TTL of 30 s\n",
		guards*1e6/renewals, guards/renewals*7*24*3600/10)
	return nil
}

// guardsTime returns the processor time of a run's guard so far, in seconds.
func guardsTime(elector *child) float64 {
	var ns float64
	for _, pid := range guardOf(elector) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
		_, _ = fmt.Sscan(string(text), &ns)
	}
	return ns / 1e9
}
