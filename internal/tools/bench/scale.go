//go:build linux

package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
)

const (
	scaleTTL = 30 * time.Second
	perKey   = 3   // candidates, of which one leads
	arrivals = 200 // candidates that come at the same time
	longWait = 2 * time.Minute
)

// keeper is a server of many keys.
type keeper interface {
	open(host string) (store, error)
	// costs returns what it has used so far, with units.
	costs() ([]cost, error)
	restart() error
	stop()
}

type cost struct {
	unit  string
	spent float64
}

// scale measures many keys with three candidates each on one server, each candidate with its
// own connections: what a lease costs the server, how long renewals take, and what happens
// to the leases when the server is restarted.
func scale(b *bench) error {
	return onScale(b.keys, func(hosts []string, connections int) (keeper, error) {
		s, err := startRedis(b.dir, slices.Concat([]string{"--appendonly", "yes", "--maxclients", fmt.Sprint(connections), "--bind"}, hosts)...)
		return redisKeeper{s}, err
	})
}

// mostBackends is the largest number of Postgres' processes, one for each connection.
const mostBackends = 2500

// scalePostgres is the same on Postgres, with as many keys as it has connections for.
func scalePostgres(b *bench) error {
	keys := min(b.keys, mostBackends/(perKey+1)/2)
	return onScale(keys, func(hosts []string, _ int) (keeper, error) {
		return startPostgres(b.dir, hosts, mostBackends)
	})
}

func onScale(keys int, start func(hosts []string, connections int) (keeper, error)) error {
	// Two connections of a holder and one of each standby, with two ends each; and some more
	// while they are reopened.
	files := keys*(perKey+1)*2 + 1000
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(files), Max: uint64(files)}); err != nil {
		return fmt.Errorf("%d open files: %w", files, err)
	}
	// Each candidate of a key has its own address: an address has only 28,000 ports.
	hosts := []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"}
	server, err := start(hosts, files)
	if err != nil {
		return err
	}
	defer server.stop()
	first, err := server.open(hosts[0])
	if err != nil {
		return err
	}
	c := &candidates{store: first, ttl: scaleTTL, orders: make(chan campaign.Received), calls: &calls{}}
	s := &crowdOfKeys{candidates: c, server: server, keys: keys, letGo: make(chan time.Time)}
	err = s.arrive(hosts)
	if err == nil {
		err = s.steady()
	}
	if err == nil {
		err = s.restart()
	}
	close(s.letGo) // commands end, standbys lead and end in their turn
	return errors.Join(err, s.finish())
}

// crowdOfKeys are the candidates of many keys.
type crowdOfKeys struct {
	*candidates
	server keeper
	keys   int
	letGo  chan time.Time
	starts atomic.Int64
	stores []store
}

// arrive starts the candidates, and returns when one of each key leads and the others stand
// by.
func (s *crowdOfKeys) arrive(hosts []string) error {
	begin := clock()
	for rank, host := range hosts {
		var coming sync.WaitGroup
		places := make(chan struct{}, arrivals)
		for n := range s.keys {
			store, err := s.server.open(host)
			if err != nil {
				return err
			}
			s.stores = append(s.stores, store)
			leads := make(chan struct{})
			places <- struct{}{}
			coming.Go(func() {
				s.joinFor(fmt.Sprintf("key-%d", n), store, &command{
					started: sync.OnceFunc(func() { s.starts.Add(1); close(leads) }),
					ended:   func() {},
					over:    func() <-chan time.Time { return s.letGo },
				})
				if rank == 0 {
					select {
					case <-leads:
					case <-time.After(patience):
					}
				}
				<-places
			})
		}
		coming.Wait()
		if led := s.starts.Load(); led != int64(s.keys) {
			return fmt.Errorf("%d of %d keys are led", led, s.keys)
		}
	}
	err := awaitFor(longWait, "the standbys", func() (bool, error) {
		return int(s.calls.waiting.Load()) >= (perKey-1)*s.keys, nil
	})
	fmt.Printf("  %d keys with %d candidates each: all lead or stand by after %.1f s\n", s.keys, perKey, (clock() - begin).Seconds())
	return err
}

// steady measures while nothing happens.
func (s *crowdOfKeys) steady() error {
	const ttls = 2
	before, err := s.server.costs()
	if err != nil {
		return err
	}
	s.calls.mu.Lock()
	s.calls.took = nil
	s.calls.mu.Unlock()
	time.Sleep(ttls * scaleTTL)
	after, err := s.server.costs()
	if err != nil {
		return err
	}
	s.calls.mu.Lock()
	took := slices.Clone(s.calls.took)
	s.calls.mu.Unlock()
	fmt.Printf("  per lease and TTL of %s, its standbys included:", scaleTTL)
	for i, c := range after {
		fmt.Printf("  %.1f %s", (c.spent-before[i].spent)/float64(s.keys*ttls), c.unit)
	}
	fmt.Printf("\n  %d renewals, ms   %s   99.9 %% within %.1f\n", len(took), summary(took), at(took, 0.999))
	return nil
}

// restart stops the server properly and starts it again.
func (s *crowdOfKeys) restart() error {
	begin := clock()
	if err := s.server.restart(); err != nil {
		return err
	}
	back := clock()
	err := awaitFor(longWait, "a renewal of every lease", func() (bool, error) {
		s.calls.mu.Lock()
		defer s.calls.mu.Unlock()
		late := 0
		for _, at := range s.calls.renewed {
			if at < back {
				late++
			}
		}
		return late == 0 && len(s.calls.renewed) == s.keys, nil
	})
	fmt.Printf("  the server is started again, which takes %.1f s; all are renewed %.1f s later; %d leases are lost\n",
		(back - begin).Seconds(), (clock() - back).Seconds(), s.starts.Load()-int64(s.keys))
	return err
}

func (s *crowdOfKeys) finish() error {
	err := s.end()
	for _, store := range s.stores {
		err = errors.Join(err, store.Close())
	}
	return err
}
