// Package mysql keeps leases in one table of one database of a MariaDB or a MySQL.
//
// Promise: that of [cas.Table]. Each statement is its own transaction. So a client that dies
// leaves none open, no row is locked between two requests, and a denial writes nothing.
// SELECT … FOR UPDATE would promise none of this, and a Galera cluster does not keep its
// locks.
//
// Not promised: replicas lag, so a failover can grant a key twice if the holder cannot be
// called then (see settling in package leasestate). The nodes of a cluster have different
// clocks. Deleting a row takes the lease away.
//
// Cost, in round trips: two for a grant or a renewal, one for a denial. A new connection takes
// two or more to log in and one to prepare the session. A standby has one connection, the
// holder two.
//
// The first change creates the table leaderrun_leases. Users who must not create tables
// need SELECT, INSERT and UPDATE on it. With DELETE, adding a row also removes rows that
// have been idle for as long as leasestate.Idle says.
//
// Wake-ups: see sleep. They may get lost: a standby checks its row every 5 s.
//
// Only package store, tests and tools may import it.
package mysql

import (
	"context"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/cas"
	"github.com/leaderrun/leaderrun/internal/store/location"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// Options say where the leases are: URL is mysql://USER:PASSWORD@HOST[:PORT]/DATABASE, with
// parameters of TLS, and Prefix the first column of every row.
type Options = network.Options

// Store is a [lease.Store] in one database. The context is the only bound of a call.
type Store struct {
	*cas.Table[*conn]
	conns *conns
	// listeners has a holder's second connection, so that listening takes none from
	// renewals.
	listeners *conns
	settle    int64 // ms
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
	t, err := location.Parse(urls, o.URL, o.Prefix, parseURL)
	if err != nil {
		return nil, err
	}
	s := &Store{conns: newConns(o.URL, t, o.Dialer), listeners: newConns(o.URL, t, o.Dialer), settle: settle}
	s.listeners.accepted = s.conns.accepted
	s.Table = cas.NewTable(cas.Table[*conn]{
		Prefix: o.Prefix, Do: s.conns.do, Yield: s.conns.Yield, Look: s.look, Save: s.save, Names: s.names,
		Missing:     func(err error) bool { return hasNumber(err, noSuchTable) },
		Interrupted: func(err error) bool { return hasNumber(err, interrupted) },
		Create:      func(ctx context.Context, c *conn) error { _, err := c.exec(ctx, createTable); return err },
	})
	return s, nil
}

// Close implements [lease.Store]. Calls that are under way end by themselves.
func (s *Store) Close() error {
	s.conns.Close()
	s.listeners.Close()
	return nil
}
