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

// membersApart is for how long the word of another member may not count (docs/stores.md).
const membersApart = 31 * time.Second

// world is a store that rounds are played on: a file of its own, and a line below.
type world struct {
	name string
	ttl  time.Duration // of the leases, unless somebody says otherwise
	// apart is by how much its word on the end of a lease may be late.
	apart time.Duration
	// has are the conditions of faults that it meets.
	has  []need
	open func(site) (backend, error)
}

var worlds = []world{redisWorld, sentinelWorld, postgresWorld, mysqlWorld, etcdWorld, etcdsWorld, kubernetesWorld}

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

// site is where a worker has its servers.
type site struct {
	worker int
	addr   string // for all of them that need no host of their own
	dir    string
	hosts  bool // there may be hosts of their own
}

// backend is the store of a worker, whatever it consists of. Other methods of it are in
// the interfaces that some faults need.
type backend interface {
	// servers are those that each candidate reaches by a proxy of its own. There are none
	// where the store gives clients the addresses of servers.
	servers() []string
	// url names it, with other addresses for its servers; with none as they are.
	url(proxies []string) string
	// kill ends the server that leads, and start starts it again; freeze stops it, and
	// cont lets it go on. Start and cont return when the store answers.
	kill() error
	start() error
	freeze() error
	cont() error
	stop()
}

// open opens it, past every proxy.
func open(b backend) (location.Store, error) {
	return stores.Open(b.url(nil), location.Options{Prefix: prefix, Warn: func(string, string) {}})
}

// answers waits until it answers.
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
