package redis

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// askNode asks one node of a cluster which node has the key. The greeting must say that this
// is a cluster: each of several single servers would say that it has the key, and grant it.
func (s *servers) askNode(ctx context.Context, addr, key string) (string, *lease.StoreError) {
	said, err := s.greet(ctx, addr)
	if err != nil {
		return "", s.failure(ctx, locating, "redis", addr, err)
	}
	if said["mode"] != "cluster" {
		return "", &lease.StoreError{
			Permanent: true, Hint: "name it with redis://, if it is the only one",
			Err: fmt.Errorf("redis at %s: it is no node of a cluster", addr),
		}
	}
	_, err = s.conns.do(ctx, addr, func(c *redis.Client) (any, error) { return c.Do(ctx, "PTTL", key).Result() })
	to, moved := movedTo(err, addr)
	if err != nil && !moved {
		return "", s.failure(ctx, locating, "redis", addr, err)
	}
	s.conns.accepted.Call(locating)
	return cmp.Or(to, addr), nil
}

// movedTo returns the address that a node of a cluster named instead of executing a call.
func movedTo(err error, from string) (addr string, moved bool) {
	addr, moved = redis.IsMovedError(err)
	return withHost(addr, from), moved
}

// withHost completes an address from a node: one that does not know another's host, or is set
// not to say it, leaves the host out or writes "?".
func withHost(addr, from string) string {
	if host, port, err := net.SplitHostPort(addr); err == nil && (host == "" || host == "?") {
		host, _, _ = net.SplitHostPort(from)
		return net.JoinHostPort(host, port)
	}
	return addr
}

// eachPrimary calls every node of the cluster that has slots. The node with the key lists
// them.
func (s *servers) eachPrimary(ctx context.Context, op, key string, call func(*redis.Client) (any, error)) error {
	v, err := s.do(ctx, op, key, func(c *redis.Client) (any, error) {
		slots, err := c.Do(ctx, "CLUSTER", "SLOTS").Slice() // version 6 knows no CLUSTER SHARDS, and the client's own function no host that is nil
		return primaries(slots, c.Options().Addr), err
	})
	if err != nil {
		return err
	}
	addrs, _ := v.([]string)
	if len(addrs) == 0 {
		e := noAnswer("redis", s.place(key), "a node of a cluster")
		e.Op = op
		return e
	}
	for _, addr := range addrs {
		if _, err := s.conns.do(ctx, addr, call); err != nil {
			return s.failureThere(ctx, op, addr, err)
		}
	}
	return nil
}

// primaries returns the addresses of the nodes that have slots. Each slot is first, last, and
// its nodes, the primary first: host (nil if it is not to be said), port, id, and perhaps more.
func primaries(slots []any, from string) (addrs []string) {
	const first = 2
	for _, slot := range slots {
		parts, _ := slot.([]any)
		if len(parts) <= first {
			continue
		}
		node, _ := parts[first].([]any)
		if len(node) < 2 {
			continue
		}
		host, _ := node[0].(string)
		port, isPort := node[1].(int64)
		if addr := withHost(net.JoinHostPort(host, strconv.FormatInt(port, 10)), from); isPort && !slices.Contains(addrs, addr) {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}
