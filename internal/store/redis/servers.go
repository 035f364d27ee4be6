package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// servers finds the server that has a key and calls it. If the URL names sentinels or nodes
// of a cluster, these are guides: they are asked, one after the other, which server has a
// key. Their answer counts until a call to that server fails; sentinels also confirm grants and
// renewals. Nothing happens between calls.
type servers struct {
	*target
	// latest is the target as it was read for the last dial: passwords and
	// certificates may change while a command runs.
	latest atomic.Pointer[target]

	conns *conns // to the servers that have leases
	// listeners has a holder's second connection, so that listening takes none from
	// renewals.
	listeners *conns
	guides    *conns

	mu    sync.Mutex
	where map[string]string // the address of the server, by the key's slot

	next atomic.Int32 // the guide to ask next
}

const (
	// guideLimit is how long one guide may take: enough for two TLS connections to the
	// other side of the world.
	guideLimit = 2 * time.Second
	// locating is the name of the calls that ask which server has a key.
	locating = "locate"
	// maxMoves is how often one call follows a cluster's MOVED.
	maxMoves = 3
)

func newServers(address string, t *target, dial network.Dial) *servers {
	s := &servers{target: t, where: map[string]string{}}
	s.latest.Store(t)
	dial = network.Dialer(dial)
	family := "tcp"
	if t.kind == socket {
		family = "unix"
	}
	connect := func(ctx context.Context, addr string) (net.Conn, *target, error) {
		now, err := parseURL(address)
		if err != nil {
			return nil, nil, err
		}
		s.latest.Store(now)
		c, err := dial(ctx, family, addr)
		if err != nil {
			return nil, nil, err
		}
		k, ok := c.(fromKernel)
		if ok {
			k = &limited{fromKernel: k}
			c = k
		}
		if now.tls != nil {
			c, err = network.Secure(ctx, c, now.tls, addr)
			return c, now, err
		}
		if ok {
			c = &plain{fromKernel: k}
		}
		return c, now, nil
	}
	who := func(t *target) (user, password string) { return t.user, t.password }
	s.conns, s.listeners = newConns(t.db, who, connect), newConns(t.db, who, connect)
	s.listeners.accepted = s.conns.accepted
	if s.guides = s.conns; t.kind == sentinel {
		s.guides = newConns(0, func(t *target) (user, password string) { return t.sentinelUser, t.sentinelPassword }, connect)
	}
	return s
}

// do runs one call at the server that has the key. It sends a call again only if a node of a
// cluster has redirected it, so that it was certainly not executed.
func (s *servers) do(ctx context.Context, op, key string, call func(*redis.Client) (any, error)) (any, error) {
	for moves := 0; ; moves++ {
		addr, failure := s.locate(ctx, key)
		if failure != nil {
			failure.Op = op
			return nil, failure
		}
		conns := s.conns
		if op == keep.Call.Op() {
			conns = s.listeners
		}
		v, err := conns.do(ctx, addr, call)
		if err == nil {
			return v, nil
		}
		if to, moved := movedTo(err, addr); moved && s.kind == cluster && moves < maxMoves {
			s.remember(key, to)
			continue
		}
		if op != keep.Call.Op() && !errors.Is(ctx.Err(), context.Canceled) { // neither says anything about the server of renewals
			s.forget(key, addr)
		}
		return nil, s.failureThere(ctx, op, addr, err)
	}
}

// locate returns the address of the server that has the key.
func (s *servers) locate(ctx context.Context, key string) (string, *lease.StoreError) {
	if !s.guided() {
		return s.addrs[0], nil
	}
	s.mu.Lock()
	addr := s.where[s.slot(key)]
	s.mu.Unlock()
	if addr != "" {
		return addr, nil
	}
	return s.find(ctx, key)
}

// find asks the guides for the key's server.
func (s *servers) find(ctx context.Context, key string) (string, *lease.StoreError) {
	const theServer = 1
	addr, failure := s.askGuides(ctx, theServer, func(ctx context.Context, guide string) (string, *lease.StoreError) {
		if s.kind == sentinel {
			return s.askSentinel(ctx, guide)
		}
		return s.askNode(ctx, guide, key)
	})
	if failure == nil {
		s.remember(key, addr)
	}
	return addr, failure
}

// askGuides asks the guides one after the other, beginning with the one that answered last. Each
// gets a share of the time that remains: those that are left and so many later calls need time.
func (s *servers) askGuides(ctx context.Context, later int, ask func(ctx context.Context, guide string) (string, *lease.StoreError)) (string, *lease.StoreError) {
	var failures []*lease.StoreError
	first := int(s.next.Load())
	for i := range s.addrs {
		guide := (first + i) % len(s.addrs)
		bounded, cancel := context.WithTimeout(ctx, min(guideLimit, network.Left(ctx)/time.Duration(len(s.addrs)-i+later)))
		addr, failure := ask(bounded, s.addrs[guide])
		cancel()
		if failure == nil {
			s.next.Store(int32(guide)) //nolint:gosec // a few addresses
			return addr, nil
		}
		if failures = append(failures, failure); ctx.Err() != nil {
			break
		}
	}
	return "", worst(failures)
}

// guided reports whether guides say where a key is.
func (s *servers) guided() bool { return s.kind == sentinel || s.kind == cluster }

// failureThere returns the failure of a server. If guides named it, another server may take
// its place.
func (s *servers) failureThere(ctx context.Context, op, addr string, err error) *lease.StoreError {
	e := s.failure(ctx, op, "redis", addr, err)
	if e.Refused && s.guided() {
		e.Refused, e.Hint = false, "start it, or wait until another takes its place"
	}
	return e
}

// greet returns a server's answer to HELLO.
func (s *servers) greet(ctx context.Context, addr string) (map[string]any, error) {
	v, err := s.conns.do(ctx, addr, func(c *redis.Client) (any, error) {
		hello := redis.NewMapStringInterfaceCmd(ctx, "HELLO", 2)
		return hello, c.Process(ctx, hello)
	})
	if err != nil {
		return nil, err
	}
	return v.(*redis.MapStringInterfaceCmd).Val(), nil
}

// worst returns the most informative error of the guides, the first one of several. It is
// permanent, or refused, only if all errors are.
func worst(failures []*lease.StoreError) *lease.StoreError {
	says := func(e *lease.StoreError) int {
		switch {
		case e.Permanent:
			return 3
		case !e.Refused && e.Hint != network.HintNetwork && e.Hint != network.HintSilent:
			return 2
		case !e.Refused: // silence
			return 1
		}
		return 0
	}
	e := *slices.MaxFunc(failures, func(a, b *lease.StoreError) int { return says(a) - says(b) })
	for _, f := range failures {
		e.Permanent = e.Permanent && f.Permanent
		e.Refused = e.Refused && f.Refused
	}
	if n := len(failures); n > 1 {
		e.Err = fmt.Errorf("%w (%d were asked)", e.Err, n)
	}
	return &e
}

// place returns the address of the key's server, or the first guide's if it is unknown.
func (s *servers) place(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.where[s.slot(key)], s.addrs[0])
}

func (s *servers) remember(key, addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.where[s.slot(key)] = addr
}

// forget drops the connections to a server that failed, and its address, unless another
// server has been found since.
func (s *servers) forget(key, addr string) {
	if !s.guided() {
		return
	}
	s.conns.drop(addr)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.where[s.slot(key)] == addr {
		delete(s.where, s.slot(key))
		s.next.Add(1) // that guide may be outdated
	}
}

// slot returns the same text for keys that certainly have the same server.
func (s *servers) slot(key string) string {
	if s.kind == cluster {
		return key
	}
	return ""
}
