//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	stores "github.com/leaderrun/leaderrun/internal/store"
	"github.com/leaderrun/leaderrun/internal/store/location"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

const prefix = "leaderrun"

// membersApart is how long after its expiry a lease counts by another member's clock
// (docs/stores.md).
const membersApart = 31 * time.Second

// world is a store for rounds.
type world struct {
	name string
	ttl  time.Duration // of the leases
	// apart is how much longer than its TTL a lease may count.
	apart time.Duration
	// has are the conditions of faults that the store meets.
	has  []need
	open func(*rig) backend
}

var (
	redisWorld    = world{name: "redis", ttl: 3 * time.Second, has: []need{proxied, oldData, ownClock, connections, locks}, open: openRedis}
	sentinelWorld = world{name: "sentinel", ttl: 6 * time.Second, has: []need{ownClock, replicas}, open: openSentinels} // the TTL is longer than a failover
	worlds        = []world{
		redisWorld, sentinelWorld,
		{name: "postgres", ttl: 3 * time.Second, has: []need{proxied, oldData, ownClock, connections, locks}, open: openPostgres},
		{name: "mysql", ttl: 3 * time.Second, has: []need{proxied, oldData, ownClock, connections, locks}, open: openMariaDB},
		{name: "etcd", ttl: 3 * time.Second, apart: membersApart, has: []need{proxied, oldData, quota}, open: func(at *rig) backend { return openEtcds(at, 1) }},
		{name: "etcd-cluster", ttl: 6 * time.Second, apart: membersApart, has: []need{proxied, oldData, quota, peers}, // the TTL is longer than an election
			open: func(at *rig) backend { return openEtcds(at, 3) }},
		{name: "kubernetes", ttl: 10 * time.Second, apart: membersApart, has: []need{proxied, behind}, open: openKubernetes}, // these two allow no less
		{name: "s3", ttl: 10 * time.Second, apart: membersApart, has: []need{proxied}, open: openS3},
	}
)

func worldOf(name string) (world, error) {
	i := slices.IndexFunc(worlds, func(w world) bool { return w.name == name })
	if i < 0 {
		return world{}, fmt.Errorf("-store %s: %s", name, worldNames())
	}
	return worlds[i], nil
}

func worldNames() string {
	var names []string
	for _, w := range worlds {
		names = append(names, w.name)
	}
	return strings.Join(names, ", ")
}

// backend is the store of a worker. Some faults need further methods, which are in other
// interfaces.
type backend interface {
	// servers returns the servers to which each candidate gets its own proxy: none if clients
	// learn the servers' addresses from the store.
	servers() []string
	// url returns the store's address with the proxies' addresses, or without proxies.
	url(proxies []string) string
	// kill kills the server that leads, and start restarts it; freeze stops it, and cont
	// continues it. start and cont return when the store answers.
	kill()
	start()
	freeze()
	cont()
}

// open opens the store without a proxy.
func open(b backend) location.Store {
	s, err := stores.Open(location.Options{URL: b.url(nil), Prefix: prefix, Warn: func(string, string) {}})
	must.Check(err)
	return s
}

// answers waits until the store answers.
func answers(b backend) {
	s := open(b)
	defer func() { _ = s.Close() }()
	must.Check(await(context.Background(), "an answer of the store", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := s.Inspect(ctx, "none")
		return err == nil
	}))
}
