// Package mysql keeps leases in one table of one database of a MariaDB or a MySQL.
//
// Promise: that of package keep, by the clock of the database alone. Each statement is its own transaction. So a client that dies
// leaves none open, no row is locked between two requests, and a denial writes nothing.
// SELECT … FOR UPDATE would promise none of this, and a Galera cluster does not keep its
// locks.
//
// Not promised: replicas lag, so a failover can grant a key twice if the holder cannot be
// called then (see settling in package rules). The nodes of a cluster have different
// clocks. Deleting a row takes the lease away.
//
// Cost, in round trips: two for a grant or a renewal, one for a denial. A new connection takes
// two or more to log in and one to prepare the session. A standby has one connection, the
// holder two.
//
// The first change creates the table leaderrun_leases. Users who must not create tables
// need SELECT, INSERT and UPDATE on it. With DELETE, adding a row also removes rows that
// have been idle for as long as rules.Idle says.
//
// Wake-ups: see waiters. They may get lost: a standby checks its row every 5 s.
//
// Only package store, tests and tools may import it.
package mysql

import (
	"context"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/location"
)

// Options say where the leases are: URL is mysql://USER:PASSWORD@HOST[:PORT]/DATABASE, with
// parameters of TLS, and Prefix the first column of every row.
type Options = location.Options

// Store is a [lease.Store] in one database. The context is the only bound of a call.
type Store struct {
	*keep.Store
	prefix string // the first column of every row
	conns  *conns
	// listeners has a holder's second connection, so that listening takes none from
	// renewals.
	listeners *conns
}

var _ lease.Examiner = (*Store)(nil)

// New makes a store and opens no connection: the first call does. An error is a
// *lease.StoreError that names what is wrong in the URL and never repeats any
// part of it that may be a password.
func New(o Options) (*Store, error) {
	t, err := location.Parse(urls, o, parseURL)
	if err != nil {
		return nil, err
	}
	o.WarnIfInsecure(t.tls)
	s := &Store{prefix: o.Prefix, conns: newConns(o.URL, t, o.Dialer), listeners: newConns(o.URL, t, o.Dialer)}
	s.listeners.accepted = s.conns.accepted
	s.Store = keep.New(keep.Config{
		Do: s.do, Hear: s.hear, Slots: &s.conns.Slots, Yield: s.conns.Yield,
		Instant: rules.Instant{Boot: "mysql", Settle: keep.Settle},
	})
	return s, nil
}

// do runs a call on a connection, and returns its error as a *lease.StoreError.
func (s *Store) do(ctx context.Context, op string, call func(context.Context, keep.Keeper) error) error {
	return s.conns.do(ctx, op, func(c *conn) error { return call(ctx, keeper{s, c}) })
}

// Close implements [lease.Store]. Calls that are under way end by themselves.
func (s *Store) Close() error {
	s.conns.Close()
	s.listeners.Close()
	return nil
}
