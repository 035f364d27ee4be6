// Package redis keeps leases in Redis 6 or later: in one server, in the server that
// sentinels name, or in a cluster.
//
// Promise: that of package keep. Two scripts read a row, and replace it if nobody has changed
// the row or its lease since; each runs atomically and by the server's clock alone. The store
// repeats no request: a lost answer is an error, and the caller asks again with the same holder id.
//
// Not promised: a server that loses acknowledged writes can grant a key twice. That happens
// with an eviction policy other than noeviction, and at a failover to a replica that lags.
// Package rules notices most of these losses (see settling there).
//
// Cost: a skip takes two round trips on a new connection (greeting and read), a grant three; a
// renewal and a release one, two if somebody has changed the row. TLS, and finding the server,
// take more, once. With sentinels each grant and each renewal takes a question to one of them
// more.
//
// The lease of a key is a string with the holder id and an expiry, so GET shows who leads.
// Other tools that use SET NX PX with compare-and-delete exclude leaderrun and are excluded
// by it. leaderrun never changes values that it did not write.
//
// Only package store, tests and tools may import it.
package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/location"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// Options say where the leases are: URL begins with one of [Schemes]; docs/settings.md has
// the forms.
type Options = location.Options

// Store is a [lease.Store] on Redis. The context is the only bound of a call: one
// without a deadline may take as long as the network lets it.
type Store struct {
	*keep.Store
	prefix  string
	servers *servers
	called  atomic.Bool // the holder has just heard a call
}

var _ lease.Examiner = (*Store)(nil)

// New makes a store and opens no connection: the first call does. An error is a
// *lease.StoreError that names what is wrong in the URL, or in a certificate that
// it names, and never repeats any part of the URL that may be a password.
func New(o Options) (*Store, error) {
	t, err := location.Parse(urls, o, parseURL)
	if err != nil {
		return nil, err
	}
	o.WarnIfInsecure(t.tls)
	s := &Store{prefix: o.Prefix, servers: newServers(o.URL, t, o.Dialer)}
	conns := s.servers.conns
	s.Store = keep.New(keep.Config{
		Do: s.do, Hear: s.hear, Pass: s.pass, Slots: &conns.Slots, Yield: conns.Yield, Remembers: true, Overwritten: true,
		Instant: rules.Instant{Boot: "redis", Settle: keep.Settle},
	})
	return s, nil
}

// do runs a call, and returns its error as a *lease.StoreError.
func (s *Store) do(ctx context.Context, op string, call func(context.Context, keep.Keeper) error) error {
	err := call(ctx, keeper{s, op})
	if err == nil {
		s.servers.conns.accepted.Call(op)
	}
	if err == nil || errors.As(err, new(*lease.StoreError)) {
		return err
	}
	e := &lease.StoreError{Op: op, Err: fmt.Errorf("redis at %s: %w", s.servers.place(""), err), Permanent: true, Hint: hintType}
	if errors.As(err, new(*keep.Untrusted)) {
		e.Hint = rules.Hint(err, "delete that key once no command of it runs")
	}
	return e
}

const (
	// timeoutLag is how late a standby hears that nothing came: servers check their blocked
	// clients about every 100 ms, and distant servers are 150 ms away. So it asks for a wait that
	// is shorter by this. Otherwise the end of its context would cut the connection, and the
	// attempt that follows, with --wait the last one, would need a new one.
	timeoutLag = 250 * time.Millisecond
	// hearsAtMost is when the server ends a wait of whose lost connection it does not know.
	hearsAtMost = 2 * time.Minute
)

// hear waits for a bell: a list that gets an element, which stays for some seconds. Standbys
// take the wake bell's, so that one of them is woken. The call bell's moves within its list,
// which reaches everybody who waits: after network cuts the server may still have many dead
// connections of the holder.
func (s *Store) hear(ctx context.Context, bell keep.Bell, key string, _ func(keep.Row) bool) error {
	list, left := s.companion(string(bell), key), network.Left(ctx)
	atMost := min(hearsAtMost, max(10*time.Millisecond, left-min(timeoutLag, left/10))) // 0 would wait for ever
	command := []any{"BLPOP", list}
	if bell == keep.Call {
		command = []any{"BRPOPLPUSH", list, list}
		if s.called.Swap(false) { // a call stays there until it is answered
			s.rest(ctx)
		}
	}
	// Not with the client's own methods, which round their timeout to whole seconds.
	command = append(command, strconv.FormatFloat(atMost.Seconds(), 'f', 3, 64))
	calling, cancel := network.Lingering(ctx)
	defer cancel()
	element, err := s.servers.do(calling, bell.Op(), s.leaseKey(key), func(c *redis.Client) (any, error) {
		return c.Do(calling, command...).Result()
	})
	if err == nil {
		s.called.Store(bell == keep.Call && element != nil)
		s.servers.conns.accepted.Call(bell.Op())
	}
	if err == nil && element == nil && bell == keep.Wake { // a wake-up that comes now is found by the next acquire
		<-ctx.Done()
		err = ctx.Err()
	}
	return err
}

// rest keeps a holder that was just called from listening again at once.
func (s *Store) rest(ctx context.Context) {
	const between = 100 * time.Millisecond
	select {
	case <-time.After(between):
	case <-ctx.Done():
	}
}

// pass rings the wake bell.
func (s *Store) pass(ctx context.Context, key string) error {
	const op, script = "pass", "redis.pcall('DEL', KEYS[3]) redis.pcall('RPUSH', KEYS[3], '1') redis.pcall('PEXPIRE', KEYS[3], 5000)"
	_, _, err := s.eval(ctx, op, script, key)
	return err
}

// Close implements [lease.Store]. Calls that are under way end by themselves.
func (s *Store) Close() error {
	s.servers.conns.Close()
	s.servers.listeners.Close()
	s.servers.guides.Close()
	return nil
}

// noAnswer returns the error for an answer that no script gives.
func (k keeper) noAnswer(key string) error {
	e := noAnswer("redis", k.servers.place(k.leaseKey(key)), "leaderrun's script")
	e.Op = k.op
	return e
}

func (s *Store) leaseKey(key string) string { return s.prefix + ":leader:" + key }

// companion returns the name of another of the key's data, in the same slot as the lease.
func (s *Store) companion(kind, key string) string {
	return s.prefix + ":" + kind + ":{" + s.leaseKey(key) + "}"
}
