// Package postgres keeps leases in one table of one PostgreSQL database.
//
// Promise: that of [cas.Table]. A transaction lasts for one request, so a client that dies
// leaves none open. A denial writes nothing; but once an hour the host of a candidate with
// ticks is recorded, after the answer.
//
// Not promised: a failover to a replica that lags can grant a key twice if the holder cannot
// be called then (see settling in package leasestate), unless synchronous_commit makes the
// server wait for that replica. Deleting a row takes the lease away.
//
// Cost, in round trips from dial to grant: one to log in, two more for a password (SCRAM),
// two more for TLS (three before Postgres 18), one to read, one to write. On an open
// connection a grant takes two, a denial one. A standby has one connection, the holder two.
//
// The table leaderrun_leases is the one in the connection's search_path. The first change
// creates it. For users who must not create tables scripts/postgres.sql does; they need
// SELECT, INSERT and UPDATE on it. With DELETE, adding a row also removes rows that have
// been idle for as long as leasestate.Idle says.
//
// A table of the former layout has no column for the runs: they are in the state. It can be
// read as it is. The first change adds the column, for which the user must own the table,
// and moves the runs of its row. Older leaderruns can go on using the table: they keep
// their runs in the state, and the next change by a newer one moves them.
//
// Wake-ups: a release notifies a channel of the key, and all standbys that listen there
// ask at once. Behind a pooler standbys poll.
//
// Only package store, tests and tools may import it.
package postgres

import (
	"context"
	"crypto/md5" // only for names of channels
	"encoding/hex"
	"sync/atomic"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/cas"
	"github.com/leaderrun/leaderrun/internal/store/location"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// Options say where the leases are. URL is
// postgres://[user[:password]@]host[:port]/database[?sslmode=...]. PG* variables and files in
// the home directory are ignored. Prefix is the first column of every row.
type Options = network.Options

// Store is a [lease.Store] in one database. The context is the only bound of a
// call: one without a deadline may take as long as the network lets it.
type Store struct {
	*cas.Table[*conn]
	conns *conns
	// listeners has a holder's second connection, so that listening takes none from
	// renewals.
	listeners *conns
	// pooled: the last answer came through a pooler.
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

// waitEndsEarly is how long before its end a wait gives its connection back: the attempt
// at that end, with --wait the last one, has no time to open another.
const waitEndsEarly = 100 * time.Millisecond

// Wait implements [lease.Store]. A release wakes all standbys. A holder that dies wakes
// nobody: callers use their own timer for the end of the lease.
func (s *Store) Wait(ctx context.Context, key string, atMost time.Duration) error {
	if s.conns.Slots.Scarce() {
		return lease.ErrNoWakeups // it polls
	}
	over := time.NewTimer(atMost)
	defer over.Stop()
	hearing, cancel := context.WithTimeout(context.Background(), atMost-min(waitEndsEarly, atMost/20))
	defer cancel()
	woken := false
	err := s.listen(ctx, s.conns, "wait", wakeKind, key, func(c *conn) error {
		// The row shows what happened before the connection listened.
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
		// The row shows whether a candidate called before LISTEN: then the key settles. (A
		// request to hand over stays in the row until the release: the next renewal reports it.)
		r, err := s.Read(ctx, c, key)
		if err != nil || r.State.Settling != nil {
			return err
		}
		return c.hear(context.Background())
	})
}

// listen runs then on a connection that listens to a channel of key.
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
		// A pooler would listen on a connection that it then uses for other clients.
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

// The kinds of channels: standbys listen to the first, the holder to the second.
const (
	wakeKind = "leaderrun_"
	callKind = "leaderrun_ctl_"
)

// channel returns the name of a key's channel. Neither a prefix nor a key has a space.
func (s *Store) channel(kind, key string) string {
	sum := md5.Sum([]byte(s.Prefix + " " + key))
	return kind + hex.EncodeToString(sum[:])
}
