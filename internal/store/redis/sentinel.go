package redis

import (
	"context"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// askSentinel asks one sentinel for the server, and then asks that server whether it is a
// replica: a sentinel may be outdated, and a replica answers some calls as if it had carried
// them out.
func (s *servers) askSentinel(ctx context.Context, addr string) (string, *lease.StoreError) {
	named, failure := s.askName(ctx, addr)
	if !network.IsHolder(ctx) { // only a leader asks again
		s.guides.drop(addr)
	}
	if failure != nil {
		return "", failure
	}
	said, err := s.greet(ctx, named)
	if err != nil {
		return "", s.failureThere(ctx, locating, named, err)
	}
	if said["role"] == "replica" {
		return "", &lease.StoreError{Hint: hintFailover, Err: fmt.Errorf("redis at %s: a sentinel named it, but it is a replica", named)}
	}
	return named, nil
}

func (s *servers) askName(ctx context.Context, addr string) (string, *lease.StoreError) {
	v, err := s.guides.ask(ctx, addr, func(c *redis.Client) (any, error) {
		return c.Do(ctx, "SENTINEL", "get-master-addr-by-name", s.name).Result()
	})
	if err != nil {
		return "", s.failure(ctx, locating, "sentinel", addr, err)
	}
	s.guides.accepted.Call(locating)
	if v == nil {
		e := &lease.StoreError{
			Permanent: true,
			Hint:      "correct the name in the store's URL: SENTINEL MASTERS lists those there are",
			Err:       fmt.Errorf("sentinel at %s: it knows no server named %q", addr, s.name),
		}
		if s.conns.accepted.HasLogin() { // it knew one that accepted this login
			e.Permanent, e.Hint = false, "give the sentinels their settings again: SENTINEL MONITOR"
		}
		return "", e
	}
	if pair, ok := v.([]any); ok && len(pair) == 2 {
		host, isText := pair[0].(string)
		port, isToo := pair[1].(string)
		if isText && isToo && host != "" {
			return net.JoinHostPort(host, port), nil
		}
	}
	return "", noAnswer("sentinel", addr, "a sentinel")
}

// confirm asks a sentinel whether the server that granted or renewed a lease is still the primary.
// One that stood still and was replaced answers as before until a sentinel makes it a replica: it
// waits for eight seconds after the server can be reached again (SENTINEL_PUBLISH_PERIOD*4 in
// sentinel.c). So only what a sentinel says after the answer counts. The server needs no greeting
// then: it has carried out a script that writes. The connection to the sentinel is kept, so the
// next renewal needs no DNS.
func (s *servers) confirm(ctx context.Context, op, key, answered string) error {
	if s.kind != sentinel {
		return nil
	}
	named, failure := s.askGuides(ctx, 0, s.askName)
	if failure == nil {
		if named == answered {
			return nil
		}
		s.forget(key, answered)
		failure = &lease.StoreError{Hint: hintFailover, Err: fmt.Errorf("redis at %s: a sentinel named another since", answered)}
	}
	failure.Op = op
	return failure
}
