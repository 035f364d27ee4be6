//go:build linux

package main

import (
	"fmt"
	"os/exec"
	"time"
)

// idle counts the requests of a leader alone, and then of standbys beside it.
func idle(b *bench) {
	const standbys, ttls, ttl = 10, 3, 3 * time.Second
	leaderrun := []string{"leaderrun", "--wait", "forever", "--ttl", ttl.String(), "--key", "idle", "--"}
	defer hold(leaderrun).end()
	b.redis.awaitListeners(1)
	count := func() float64 {
		before := b.redis.info()(requests)
		time.Sleep(ttls * ttl)
		return (b.redis.info()(requests) - before) / ttls
	}
	alone := count()
	for range standbys {
		defer launch(exec.Command(leaderrun[0], append(leaderrun[1:], "true")...)).end()
	}
	b.redis.awaitListeners(standbys + 1)
	fmt.Printf("  requests per TTL: the leader %.1f, each of %d standbys %.2f\n", alone, standbys, (count()-alone)/standbys)
}

// scale has a leader and a standby for each of many keys on this host, and measures what they
// cost, and what a restart of the server does to the leases.
func scale(b *bench) {
	var leaders, all []*child
	defer func() {
		for _, c := range all {
			c.end()
		}
	}()
	begin := clock()
	for n := range b.keys {
		leaderrun := []string{"leaderrun", "--quiet", "--wait", "forever", "--key", fmt.Sprintf("scale-%d", n), "--"}
		leader := hold(leaderrun)
		standby := launch(exec.Command(leaderrun[0], append(leaderrun[1:], "true")...))
		leaders, all = append(leaders, leader), append(all, standby, leader)
	}
	b.redis.awaitListeners(2 * b.keys)
	fmt.Printf("  %d keys: all lead or stand by after %.1f s\n", b.keys, (clock() - begin).Seconds())
	var memory float64
	for _, c := range all {
		memory += c.pss()
	}
	fmt.Printf("  memory of electors and guards, PSS in MB: %.0f, %.1f for each of %d runs\n", memory, memory/float64(len(all)), len(all))

	const ttls, ttl = 2, 30 * time.Second
	before := b.redis.info()
	time.Sleep(ttls * ttl)
	after := b.redis.info()
	per := func(name string) float64 { return (after(name) - before(name)) / float64(ttls*b.keys) }
	fmt.Printf("  per key and TTL of %s: %.1f requests, %.1f kB to read, %.1f kB to write, %.0f µs of the server's processor\n", ttl,
		per(requests), per("total_net_input_bytes")/1000, per("total_net_output_bytes")/1000, per(processor)*1e6)

	b.redis.Restart()
	time.Sleep(ttl)
	lost := 0
	for _, c := range leaders {
		select {
		case <-c.over:
			lost++
		default:
		}
	}
	fmt.Printf("  the server was started again: %d of %d leases are lost\n", lost, b.keys)
}
