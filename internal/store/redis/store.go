// Package redis keeps leases in Redis 6 or later: in one server, in the server that
// sentinels name, or in a cluster.
//
// Promise: the contract of [lease.Store], by one script per verb, which runs atomically on
// the server and by the server's clock alone. The store repeats no request: a lost answer is
// an error, and the caller asks again with the same holder id.
//
// Not promised: a server that loses acknowledged writes can grant a key twice. That happens
// with an eviction policy other than noeviction, and at a failover to a replica that lags.
// The scripts notice most of these losses (see settling in acquire.lua).
//
// Cost: a grant takes two round trips on a new connection (greeting and script), and one on
// an open one. TLS, and finding the server, take more, once. With sentinels each grant and each
// renewal takes a question to one of them more.
//
// The lease of a key is a string with the holder id and an expiry, so GET shows who leads.
// Other tools that use SET NX PX with compare-and-delete exclude leaderrun and are excluded
// by it. leaderrun never changes values that it did not write.
//
// Only package store, tests and tools may import it.
package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/location"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// Options say where the leases are: URL begins with one of [Schemes]; docs/settings.md has
// the forms.
type Options = network.Options

// Store is a [lease.Store] on Redis. The context is the only bound of a call: one
// without a deadline may take as long as the network lets it.
type Store struct {
	prefix  string
	servers *servers
}

var (
	_ lease.Store    = (*Store)(nil)
	_ lease.Pinger   = (*Store)(nil)
	_ lease.Admin    = (*Store)(nil)
	_ lease.Examiner = (*Store)(nil)
)

// New makes a store and opens no connection: the first call does. An error is a
// *lease.StoreError that names what is wrong in the URL, or in a certificate that
// it names, and never repeats any part of the URL that may be a password.
func New(o Options) (*Store, error) {
	t, err := location.Parse(urls, o.URL, o.Prefix, parseURL)
	if err != nil {
		return nil, err
	}
	return &Store{prefix: o.Prefix, servers: newServers(o.URL, t, o.Dialer)}, nil
}

const (
	// settle is how long a key that the server does not know waits for a holder that may be
	// alive. It is longer than a holder on the same network needs to hear the call and to
	// restore its lease, and short enough for a first run.
	settle = 300 * time.Millisecond

	// minKeep is how long the state of a key is kept after a lease, at least. It must be
	// longer than the pause between runs of a monthly job.
	minKeep = 35 * 24 * time.Hour

	// timeoutLag is how late a standby hears that nothing came: servers check their blocked
	// clients about every 100 ms, and distant servers are 150 ms away. Wait asks for a wait
	// that is shorter by this. Otherwise the standby's own timer would cut the connection, and
	// the attempt that follows, with --wait the last one, would need a new one.
	timeoutLag = 250 * time.Millisecond

	// answerSlack is how much longer Wait waits for the server's answer than for a wake-up.
	answerSlack = time.Second
)

var (
	//go:embed head.lua
	headLua string
	//go:embed acquire.lua
	acquireLua string
	//go:embed renew.lua
	renewLua string
	//go:embed release.lua
	releaseLua string
	//go:embed pass.lua
	passLua string
	//go:embed status.lua
	statusLua string
	//go:embed handover.lua
	handOverLua string
	//go:embed revoke.lua
	revokeLua string
	//go:embed pause.lua
	pauseLua string
	//go:embed resume.lua
	resumeLua string
	//go:embed forget.lua
	forgetLua string
)

// keep returns how long, in ms, a key's state and runs are kept after the last write. No tick
// and no lease may last longer.
func keep(ttl, period time.Duration) int64 {
	return max(minKeep.Milliseconds(), 3*period.Milliseconds(), 2*ttl.Milliseconds()) // in ms: three long periods would overflow a Duration
}

// Acquire implements [lease.Store].
func (s *Store) Acquire(ctx context.Context, r lease.Request) (lease.Lease, error) {
	const op = "acquire"
	if !r.Holder.Valid() {
		return lease.Lease{}, &lease.StoreError{Op: op, Permanent: true, Err: fmt.Errorf("%q is no holder id", r.Holder)}
	}
	a, err := s.eval(ctx, op, acquireLua, r.Key,
		string(r.Holder), r.TTL.Milliseconds(), r.MinHold.Milliseconds(), r.Tick, r.Period.Milliseconds(), r.Tries,
		settle.Milliseconds(), keep(r.TTL, r.Period), r.Meta,
		r.Seen.Token, r.Seen.TTL.Milliseconds(), r.Seen.Expires, milliseconds(r.Seen.Left),
		lease.Round(r.Period, r.Exact), lease.Reach(r.Period, r.Exact), r.TickFrom, r.TickUntil, bit(r.Waits))
	if err != nil {
		return lease.Lease{}, err
	}
	switch a.int(0) {
	case 0:
		s.servers.conns.yield()
		err = &lease.HeldError{Remaining: a.duration(2), Why: a.heldReason(3), Value: a.str(4), Token: a.int(5), TTL: a.duration(6), Since: a.duration(7), Expires: a.int(8), Tick: a.int(1)}
	case 1:
		l := lease.Lease{
			Key: r.Key, Holder: r.Holder, TTL: r.TTL, Period: r.Period, Exact: r.Exact, Meta: r.Meta,
			Token: a.int(2), Tick: a.int(3), AcquiredAt: a.int(4), MinHoldUntil: a.int(5),
		}
		if !a.bad && l.Token > 0 {
			if err := s.servers.confirm(ctx, op, s.leaseKey(r.Key), a.server); err != nil {
				return lease.Lease{}, err
			}
			return l, nil
		}
		a.bad = true
	case 2:
		err = &lease.SettlingError{Remaining: a.duration(2), Why: a.settleReason(3), Tick: a.int(1)}
	case 3:
		err = &lease.DoneError{Ago: time.Duration(max(0, a.int(1)-a.int(2))) * time.Millisecond, GivenUp: a.str(3) == "given-up"}
	case 4:
		err = lease.ErrReleased
	case 5:
		s.servers.conns.yield()
		err = &lease.PausedError{Pause: a.pause(3), Remaining: a.duration(2), Tick: a.int(1)}
	case 6:
		err = &lease.ClockError{Tick: a.int(1)}
	default:
		a.bad = true
	}
	if a.bad {
		return lease.Lease{}, s.noAnswer(op, r.Key)
	}
	return lease.Lease{}, err
}

// Renew implements [lease.Store].
func (s *Store) Renew(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	const op = "renew"
	ctx = network.Holder(ctx)
	a, err := s.eval(ctx, op, renewLua, l.Key,
		string(l.Holder), l.Token, l.TTL.Milliseconds(), l.AcquiredAt, l.MinHoldUntil, l.Tick,
		keep(l.TTL, l.Period), l.Meta, bit(l.Offered))
	if err != nil {
		return l, err
	}
	switch code := a.int(0); code {
	case 0:
		err = lost(a.str(2))
	case 1, 2:
		renewed := l
		renewed.HandOver = a.int(2) == 1
		renewed.Reasserted = code == 2
		if !a.bad {
			if err := s.servers.confirm(ctx, op, s.leaseKey(l.Key), a.server); err != nil {
				return l, err
			}
			return renewed, nil
		}
	default:
		a.bad = true
	}
	if a.bad {
		return l, s.noAnswer(op, l.Key)
	}
	return l, err
}

// lost returns the error for a reason of renew.lua.
func lost(why string) error {
	text := "it has been released"
	switch why {
	case "revoked":
		return lease.ErrRevoked
	case "other":
		text = "the key holds another value"
	case "newer":
		text = "it was taken away, or granted to somebody else"
	}
	return fmt.Errorf("%w: %s", lease.ErrLost, text)
}

// Release implements [lease.Store].
func (s *Store) Release(ctx context.Context, l lease.Lease, r lease.Result) error {
	const op = "release"
	a, err := s.eval(network.Holder(ctx), op, releaseLua, l.Key,
		string(l.Holder), l.Token, bit(r.Ran), bit(r.Success), r.Exit, l.Tick, l.AcquiredAt, l.MinHoldUntil,
		lease.Round(l.Period, l.Exact), lease.Reach(l.Period, l.Exact), keep(l.TTL, l.Period))
	if err != nil {
		return err
	}
	switch code := a.int(0); {
	case a.bad || code > 1:
		return s.noAnswer(op, l.Key)
	case code == 0 && a.str(2) == "other":
		return lease.ErrLost
	}
	return nil
}

// Pass implements [lease.Store].
func (s *Store) Pass(ctx context.Context, key string) error {
	const op = "pass"
	a, err := s.eval(ctx, op, passLua, key)
	if err == nil && a.bad {
		err = s.noAnswer(op, key)
	}
	return err
}

// Wait implements [lease.Store].
func (s *Store) Wait(ctx context.Context, key string, atMost time.Duration) error {
	if s.servers.conns.slots.Scarce() {
		return lease.ErrNoWakeups // it polls
	}
	atMost = max(atMost, 10*time.Millisecond) // 0 would wait for ever
	over := time.NewTimer(atMost)
	defer over.Stop()
	ctx, cancel := context.WithTimeout(ctx, atMost+answerSlack)
	defer cancel()
	woken, err := s.pop(ctx, "wait", "wake", key, atMost-min(timeoutLag, atMost/10))
	if err != nil && s.servers.conns.slots.Scarce() {
		return lease.ErrNoWakeups
	}
	if woken || err != nil {
		return err
	}
	select { // a wake-up that comes now is found by the next acquire
	case <-over.C:
	case <-ctx.Done():
	}
	return nil
}

const listen = "listen"

// listensAtMost is when the server ends a wait of whose lost connection it does not know. A
// call (head.lua) reaches a holder despite fifteen such waits.
const listensAtMost = 2 * time.Minute

// Listen implements [lease.Pinger].
func (s *Store) Listen(ctx context.Context, key string) error {
	ctx, cancel := s.servers.conns.slots.UntilRefused(network.Holder(ctx))
	defer cancel()
	_, err := s.pop(ctx, listen, "call", key, listensAtMost)
	return err
}

// pop takes an element from a list of the key. It waits for one until atMost has passed.
func (s *Store) pop(ctx context.Context, op, list, key string, atMost time.Duration) (taken bool, err error) {
	// Not with BLPop, which rounds its timeout to whole seconds.
	seconds := strconv.FormatFloat(atMost.Seconds(), 'f', 3, 64)
	element, err := s.servers.do(ctx, op, s.leaseKey(key), func(c *redis.Client) (any, error) {
		return c.Do(ctx, "BLPOP", s.companion(list, key), seconds).Result()
	})
	if se, ok := errors.AsType[*lease.StoreError](err); ok && se.Permanent {
		return false, lease.ErrNoWakeups // such as a missing right; the next acquire reports other errors
	}
	return element != nil, err
}

// Close implements [lease.Store]. Calls that are under way end by themselves.
func (s *Store) Close() error {
	s.servers.close()
	return nil
}

func (s *Store) eval(ctx context.Context, op, script, key string, args ...any) (*answer, error) {
	keys := []string{
		s.leaseKey(key), s.companion("state", key), s.companion("wake", key), s.companion("call", key),
		s.companion("runs", key),
	}
	if s.servers.kind != cluster { // in a cluster it would have another slot
		keys = append(keys, s.prefix+":serving")
	}
	var server string
	v, err := s.servers.do(ctx, op, s.leaseKey(key), func(c *redis.Client) (any, error) {
		server = c.Options().Addr
		// EVAL, not EVALSHA, which takes one more round trip after a restart of the server,
		// when many candidates ask at once.
		return c.Eval(ctx, sent(headLua+script), keys, args...).Result()
	})
	if err != nil {
		return nil, err
	}
	return newAnswer(server, v), nil
}

// noAnswer returns the error for an answer that no script gives.
func (s *Store) noAnswer(op, key string) error {
	e := noAnswer("redis", s.servers.place(s.leaseKey(key)), "leaderrun's script")
	e.Op = op
	return e
}

func (s *Store) leaseKey(key string) string { return s.prefix + ":leader:" + key }

// companion returns the name of another of the key's data, in the same slot as the lease.
func (s *Store) companion(kind, key string) string {
	return s.prefix + ":" + kind + ":{" + s.leaseKey(key) + "}"
}

// milliseconds rounds up: the rest of a lease must not become 0.
func milliseconds(d time.Duration) int64 {
	return (d + time.Millisecond - 1).Milliseconds()
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
