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
)

const prefix = "leaderrun"

// membersApart is how long after its expiry a lease counts by another member's clock
// (docs/stores.md).
const membersApart = 31 * time.Second

// world is a store for rounds. Each has its own file, and a line below.
type world struct {
	name string
	ttl  time.Duration // of the leases, unless -ttl is given
	// apart is how much longer than its TTL a lease may count.
	apart time.Duration
	// has are the conditions of faults that the store meets.
	has  []need
	open func(site) (backend, error)
}

var worlds = []world{redisWorld, sentinelWorld, postgresWorld, mysqlWorld, etcdWorld, etcdsWorld, kubernetesWorld, s3World}

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

// site says where a worker has its servers.
type site struct {
	worker int
	addr   string // of all servers that need no host of their own
	dir    string
	hosts  bool // servers may have their own hosts
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
	kill() error
	start() error
	freeze() error
	cont() error
	stop()
}

// open opens the store without a proxy.
func open(b backend) (location.Store, error) {
	return stores.Open(b.url(nil), location.Options{Prefix: prefix, Warn: func(string, string) {}})
}

// answers waits until the store answers.
func answers(b backend) error {
	s, err := open(b)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	return await(context.Background(), "an answer of the store", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := s.Inspect(ctx, "none")
		return err == nil
	})
}
