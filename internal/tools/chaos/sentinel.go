//go:build linux

package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// sentinels are two servers, one of which leads, and three sentinels.
type sentinels struct {
	leads
	set *script.SentinelSet
}

func openSentinels(at *rig) backend {
	s := &sentinels{set: script.StartSentinels(at, 1, script.Servers{Args: []string{"--appendonly", "yes", "--appendfsync", "no"}})}
	s.leads = leads{leading: s.leader, ready: s.settled}
	s.setClock(0)
	s.settled()
	return s
}

func (s *sentinels) leader() script.Server {
	leader := s.set.Leader(s.set.Sentinels[0])
	if leader == nil {
		must.Check(errors.New("the sentinels name none of the servers"))
	}
	return leader
}

// settled waits until the servers know each other and the store answers.
func (s *sentinels) settled() {
	s.set.Await()
	answers(s)
}

func (s *sentinels) servers() []string { return nil }

func (s *sentinels) url([]string) string { return "redis-sentinel://" + s.set.Addrs() + "/mymaster" }

// failover is how long sentinels take to replace a server.
const failover = 5 * time.Second

// replaced waits until all sentinels name another server than the one that failed. That may
// never happen, since they choose no replica that was cut off for long.
func (s *sentinels) replaced(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, failover)
	defer cancel()
	_ = await(ctx, "another server that leads", func() bool {
		return !slices.ContainsFunc(s.set.Sentinels, func(one *script.RedisServer) bool {
			now := s.set.Leader(one)
			return now == nil || script.Server(now) == s.failed
		})
	})
}

// start restarts the server that was killed, and returns when it follows the other one.
func (s *sentinels) start() {
	s.set.LetFollow()
	s.leads.start()
}

func (s *sentinels) setClock(ahead time.Duration) {
	for _, one := range s.set.Data() {
		one.SetClock(clockAhead(ahead))
	}
}
