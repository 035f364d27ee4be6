// Package etcd keeps leases in etcd, through its JSON gateway.
//
// Promise: that of package keep. A state is replaced by a transaction on condition that it is
// still the one that was read (mod_revision). Reads are linearizable. It does not use etcd's
// own leases: a former leader of etcd that comes back could revoke them (etcd issue 15247).
// A Date is by the clock of the member that answers.
//
// Not promised: an etcd that was restored from a snapshot lacks later grants. It has another
// term than the etcd that granted, so the first grant of each key settles; but not if both
// are in their first term. Deleting a key takes the lease away.
//
// Cost: two requests for a grant, a renewal or a release, one for a denial. A change writes
// the state, some 600 bytes, and a release also the last runs. A standby has one connection,
// a leader two.
//
// Only package store and tests may import it.
package etcd

import (
	"context"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/location"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// Options say where the leases are: URL is etcd://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]]
// or etcds://, which has parameters of TLS.
type Options = location.Options

// Store is a [lease.Store] in one etcd. The context is the only bound of a call.
type Store struct {
	*keep.Store
	prefix string
	client *client
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
	s := &Store{prefix: o.Prefix, client: newClient(o.URL, t, o.Dialer)}
	s.Store = keep.New(keep.Config{Do: s.do, Hear: s.hear, Follows: true, Instant: rules.Instant{Boot: "etcd", Settle: keep.Settle, Apart: network.Apart}})
	return s, nil
}

// do runs a call on one member after the other until one answers.
func (s *Store) do(ctx context.Context, op string, call func(context.Context, keep.Keeper) error) error {
	return s.client.do(ctx, op, func(ctx context.Context, host string) error { return call(ctx, keeper{s, host}) })
}

// Close implements [lease.Store]. Calls that are under way end by themselves.
func (s *Store) Close() error {
	s.client.http.CloseIdleConnections()
	return nil
}
