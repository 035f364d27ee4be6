package redis

import (
	"context"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// askNode asks one node of a cluster for the one that has the key. Single
// servers would each say that they have it, and each grant it: so the greeting
// must say that this is a cluster.
func (s *servers) askNode(ctx context.Context, addr, key string) (string, *lease.StoreError) {
	said, err := s.greet(ctx, addr)
	if err != nil {
		return "", s.failure(ctx, "redis", addr, err)
	}
	if said["mode"] != "cluster" {
		return "", &lease.StoreError{
			Permanent: true, Cure: "name it with redis://, if it is the only one",
			Err: fmt.Errorf("redis at %s: it is no node of a cluster", addr),
		}
	}
	_, err = s.conns.do(ctx, addr, func(c *redis.Client) (any, error) { return c.Do(ctx, "PTTL", key).Result() })
	if to, moved := movedTo(err, addr); moved {
		return to, nil
	}
	if err != nil {
		return "", s.failure(ctx, "redis", addr, err)
	}
	return addr, nil
}

// movedTo returns the address that a node of a cluster has named instead of
// executing a call. A node that does not know its own host leaves it out.
func movedTo(err error, from string) (addr string, moved bool) {
	addr, moved = redis.IsMovedError(err)
	if host, port, err := net.SplitHostPort(addr); err == nil && host == "" {
		host, _, _ = net.SplitHostPort(from)
		addr = net.JoinHostPort(host, port)
	}
	return addr, moved
}
