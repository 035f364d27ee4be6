// Package postgres keeps leases in one table of one PostgreSQL database.
//
// Promise: that of package keep, by the clock of the database alone. A transaction lasts for one request, so a client that dies
// leaves none open. A denial writes nothing; but once an hour the host of a candidate with
// ticks is recorded, after the answer.
//
// Not promised: a failover to a replica that lags can grant a key twice if the holder cannot
// be called then (see settling in package rules), unless synchronous_commit makes the
// server wait for that replica. Deleting a row takes the lease away.
//
// Cost, in round trips from dial to grant: one to log in, two more for a password (SCRAM),
// two more for TLS (three before Postgres 18), one to read, one to write. On an open
// connection a grant takes two, a denial one. A standby has one connection, the holder two.
//
// The table leaderrun_leases is the one in the connection's search_path. The first change
// creates it. For users who must not create tables scripts/postgres.sql does; they need
// SELECT, INSERT and UPDATE on it. With DELETE, adding a row also removes rows that have
// been idle for as long as rules.Idle says.
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
	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/location"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// Options say where the leases are. URL is
// postgres://[user[:password]@]host[:port]/database[?sslmode=...]. PG* variables and files in
// the home directory are ignored. Prefix is the first column of every row.
type Options = location.Options

// Store is a [lease.Store] in one database. The context is the only bound of a
// call: one without a deadline may take as long as the network lets it.
type Store struct {
	*keep.Store
	prefix string // the first column of every row
	conns  *conns
	// listeners has a holder's second connection, so that listening takes none from
	// renewals.
	listeners *conns
	// pooled: the last answer came through a pooler.
	pooled atomic.Bool
}

var _ lease.Examiner = (*Store)(nil)

// waitEndsEarly is how long before its end a wait gives its connection back: the attempt
// at that end, with --wait the last one, has no time to open another.
const waitEndsEarly = 100 * time.Millisecond

// New makes a store and opens no connection: the first call does. An error is a
// *lease.StoreError that names what is wrong in the URL and never repeats any
// part of it that may be a password.
func New(o Options) (*Store, error) {
	config, err := location.Parse(urls, o, parseURL)
	if err != nil {
		return nil, err
	}
	s := &Store{prefix: o.Prefix, conns: newConns(o.URL, config, o.Dialer), listeners: newConns(o.URL, config, o.Dialer)}
	s.listeners.accepted = s.conns.accepted
	s.Store = keep.New(keep.Config{
		Do: s.do, Hear: s.hear, Slots: &s.conns.Slots, Yield: s.conns.Yield,
		Instant: rules.Instant{Boot: "postgres", Settle: keep.Settle},
	})
	return s, nil
}

// do runs a call on a connection, and returns its error as a *lease.StoreError.
func (s *Store) do(ctx context.Context, op string, call func(context.Context, keep.Keeper) error) error {
	return s.conns.do(ctx, op, func(c *conn) error { return call(ctx, keeper{s, c}) })
}

// hear listens to a channel of key until shortly before ctx ends, and then waits for that end: a
// notification that comes then is found by the next acquire. All standbys are woken. Behind a
// pooler nothing can be heard: it would listen on a connection that it then uses for others.
func (s *Store) hear(ctx context.Context, bell keep.Bell, key string, until func(keep.Row) bool) error {
	if s.pooled.Load() {
		return lease.ErrNoWakeups
	}
	conns := s.conns
	if bell == keep.Call {
		conns = s.listeners
	}
	left := network.Left(ctx)
	hearing, end := context.WithTimeout(context.Background(), left-min(waitEndsEarly, left/20)) // the end of ctx cuts the connection
	defer end()
	pooled, heard := false, false
	calling, cancel := network.Lingering(ctx)
	defer cancel()
	err := conns.do(calling, bell.Op(), func(c *conn) error {
		k := keeper{s, c}
		if !c.direct { // unknown yet
			if _, err := k.Read(ctx, key); err != nil {
				return err
			}
		}
		if pooled = !c.direct; pooled {
			return nil
		}
		if err := c.listen(s.channelOf(bell, key)); err != nil {
			return err
		}
		c.notified = false
		r, err := k.Read(ctx, key) // it shows what happened before the connection listened
		if err != nil || until(r) {
			heard = true
			return err
		}
		err = c.hear(hearing)
		heard = c.notified
		return err
	})
	switch {
	case pooled:
		return lease.ErrNoWakeups
	case err == nil && !heard:
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

// Close implements [lease.Store]. Calls that are under way end by themselves.
func (s *Store) Close() error {
	s.conns.Close()
	s.listeners.Close()
	return nil
}

// channelOf returns the name of the channel for a key's bell. Neither a prefix nor a key has a
// space.
func (s *Store) channelOf(bell keep.Bell, key string) string {
	sum := md5.Sum([]byte(s.prefix + " " + key))
	return "leaderrun_" + string(bell) + "_" + hex.EncodeToString(sum[:])
}
