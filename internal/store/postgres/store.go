// Package postgres keeps leases in one table of one PostgreSQL database.
//
// Promise: that of [cas.Table]. No transaction is longer than one request, so none is
// left open by a client that dies, and a denial writes nothing (but the note of a host
// that came for a tick, once an hour and after the answer).
//
// Cost, from dial to grant, in round trips: one to say who is there, two more for
// a password (SCRAM), two more for TLS (three before Postgres 18), one to read,
// one to write. On a warm connection two, and one for a denial. A standby has one
// connection, the holder two.
//
// The table leaderrun_leases is the one that the connection's search_path finds. The
// first change makes it, or scripts/postgres.sql for users who must not create tables;
// they need SELECT, INSERT and UPDATE on it. With DELETE, adding a row also removes rows
// that have been idle for as long as leasestate.Idle says.
//
// A table of the former layout has no column for the runs: they are in the state.
// Reading works as it is; the first change adds the column, for which the user must
// own the table, and moves the runs of its row. Older leaderruns go on beside that:
// they keep their runs in the state, from where the next change takes them.
//
// Wake-ups: a release notifies a channel of the key, and all standbys that listen there
// ask at once. Behind a pooler standbys poll.
//
// Not promised: a failover to a replica that lags can grant twice, unless
// synchronous_commit makes the server wait for that replica, if the holder cannot be
// called then; see leasestate's settling. Deleting a row takes the lease away.
//
// Only package store, tests and tools may import it.
package postgres

import (
	"context"
	"crypto/md5" // Postgres has it, too
	"encoding/hex"
	"sync/atomic"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/cas"
	"github.com/leaderrun/leaderrun/internal/store/location"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// Options says where the leases are: URL is
// postgres://[user[:password]@]host[:port]/database[?sslmode=...], which says all: neither
// PG* variables nor files in the home directory count. Prefix is the first column of every row.
type Options = network.Options

// Store is a [lease.Store] in one database. The context is the only bound of a
// call: one without a deadline may take as long as the network lets it.
type Store struct {
	*cas.Table[*conn]
	conns *conns
	// listeners are a holder's second connections. They are apart, so that listening
	// takes none from renewals.
	listeners *conns
	// pooled: a pooler stands in between, by what the last answer said.
	pooled atomic.Bool
}

var (
	_ lease.Store    = (*Store)(nil)
	_ lease.Pinger   = (*Store)(nil)
	_ lease.Admin    = (*Store)(nil)
	_ lease.Examiner = (*Store)(nil)
)

// New makes a store and opens no connection: the first call does. An error is a
// *lease.StoreError that names what is wrong in the URL and never repeats any
// part of it that may be a password.
func New(o Options) (*Store, error) {
	config, err := location.Parse(urls, o.URL, o.Prefix, parseURL)
	if err != nil {
		return nil, err
	}
	s := &Store{conns: newConns(o.URL, config, o.Dialer), listeners: newConns(o.URL, config, o.Dialer)}
	s.listeners.accepted = s.conns.accepted
	s.Table = cas.NewTable(cas.Table[*conn]{
		Prefix: o.Prefix, Do: s.conns.do, Yield: s.conns.Yield, Look: s.look, Create: create, Save: s.save, Names: s.names,
		Missing:     func(err error) bool { return hasState(err, undefinedTable) },
		Interrupted: func(error) bool { return false },
	})
	return s, nil
}

// early is how long before its end a wait gives its connection back. The attempt
// that comes at that instant, with --wait the last one, has no time to open another.
const early = 100 * time.Millisecond

// Wait implements [lease.Store]. All who wait are woken; a holder that dies wakes
// nobody, which the caller's own timer at the end of the lease covers.
func (s *Store) Wait(ctx context.Context, key string, atMost time.Duration) error {
	if s.conns.Slots.Scarce() {
		return lease.ErrNoWakeups // it polls
	}
	over := time.NewTimer(atMost)
	defer over.Stop()
	hearing, cancel := context.WithTimeout(context.Background(), atMost-min(early, atMost/20))
	defer cancel()
	woken := false
	err := s.listen(ctx, s.conns, "wait", wakeKind, key, func(c *conn) error {
		// What happened before it listened is in the row.
		r, err := s.Read(ctx, c, key)
		if err != nil || r.State.Free(r.Now) {
			woken = true
			return err
		}
		err = c.hear(hearing)
		woken = c.notified
		return err
	})
	if err != nil && s.conns.Slots.Scarce() {
		return lease.ErrNoWakeups
	}
	if woken || err != nil {
		return err
	}
	select { // a notification that comes now is found by the next acquire
	case <-over.C:
	case <-ctx.Done():
	}
	return nil
}

// Listen implements [lease.Pinger].
func (s *Store) Listen(ctx context.Context, key string) error {
	ctx, cancel := s.conns.Slots.UntilRefused(network.Holder(ctx))
	defer cancel()
	return s.listen(ctx, s.listeners, "listen", callKind, key, func(c *conn) error {
		// A candidate that called before LISTEN has begun a settling. (A request to hand
		// over stays in the row until the release: the next renewal reports it.)
		r, err := s.Read(ctx, c, key)
		if err != nil || r.State.Settling != nil {
			return err
		}
		return c.hear(context.Background())
	})
}

// listen runs what follows on a connection that listens to a channel of key.
func (s *Store) listen(ctx context.Context, conns *conns, op, kind, key string, then func(*conn) error) error {
	if s.pooled.Load() {
		return lease.ErrNoWakeups
	}
	var pooled bool
	err := conns.do(ctx, op, func(c *conn) error {
		if !c.direct {
			if _, err := s.Read(ctx, c, key); err != nil {
				return err
			}
		}
		// A pooler would listen on a connection that serves others next.
		if pooled = !c.direct; pooled {
			return nil
		}
		if err := c.listen(s.channel(kind, key)); err != nil {
			return err
		}
		c.notified = false
		return then(c)
	})
	if pooled || cas.IsPermanent(err) { // the next acquire reports what is wrong
		return lease.ErrNoWakeups
	}
	return err
}

// Close implements [lease.Store]. Calls that are under way end by themselves.
func (s *Store) Close() error {
	s.conns.Close()
	s.listeners.Close()
	return nil
}

// The kinds of channels: those who wait for a key listen to one, its holder to
// the other.
const (
	wakeKind = "leaderrun_"
	callKind = "leaderrun_ctl_"
)

// channel is the name of a key's channel. Neither a prefix nor a key has a space.
func (s *Store) channel(kind, key string) string {
	sum := md5.Sum([]byte(s.Prefix + " " + key))
	return kind + hex.EncodeToString(sum[:])
}
