// Package etcd keeps leases in an etcd, by its JSON gateway and net/http.
//
// Promise: the contract of [lease.Store], by the rules of package leasestate. Each verb
// reads the key's state, the rules say what becomes of it, and a changed state is
// written by a transaction on condition that the state is still the one that was read
// (mod_revision). If it is not, somebody else had success, and the verb decides again
// on what is there. Reads are linearizable. No lease of etcd's own is used: what has no
// expiry cannot be revoked by a former leader of etcd that comes back (its issue 15247).
//
// Why that is safe: a change is written only to the state that it was made for, so all
// changes of a key have one order. A transaction whose answer is lost may be applied
// later or arrive twice: it finds the state as it was read, and then it is as if the verb
// had taken that long, or it changes nothing. The holder counts from before its request.
//
// Time: etcd has no clock that all members share. The Date of an answer counts whole
// seconds on the clock of the member that gave it. So an expiry that is written there is
// believed only after apart more; before that only by a candidate whose own clock has
// seen the lease unrenewed for its TTL, which a standby does by a watch. That clock may
// stand still while the host sleeps: the candidate then waits longer. Minimum holds, ticks
// and pauses are as exact as Date and the members' clocks.
//
// Cost: two requests for a grant or a renewal, one for a denial; a release two. A change
// writes the state, some 600 bytes, and a release the last runs beside it. A standby has
// one connection, a leader two.
//
// Not promised: an etcd that was restored from a snapshot knows less than was granted.
// It has another term than the one that granted, and the first grant of each key settles,
// unless that was the first term of both. Deleting a key takes the lease away.
//
// Only package store and tests may import it.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// Options says where the leases are.
type Options struct {
	// URL is etcd://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]] or etcds://, which has
	// parameters of TLS.
	URL string
	// Prefix starts the names of all keys.
	Prefix string
	// Dialer opens connections; nil means TCP.
	Dialer network.Dial
}

// Store is a [lease.Store] in one etcd. The context is the only bound of a call.
type Store struct {
	prefix string
	client *client
	// settle and apart are leasestate's, now is a clock of this process, and wall the time
	// that an answer's Date stands for, in ms.
	settle, apart int64
	now           func() time.Duration
	wall          func(date time.Time) int64

	mu     sync.Mutex
	sights map[string]sight
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
	t, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	if o.Prefix == "" {
		return nil, refusal("the prefix of the keys is empty", "leave --prefix out, or give it a value")
	}
	began := time.Now() //nolint:forbidigo // a clock that stands still in between makes this process wait longer, no more
	return &Store{
		prefix: o.Prefix, client: newClient(o.URL, t, o.Dialer), settle: settle, apart: apart, sights: map[string]sight{},
		now:  func() time.Duration { return time.Since(began) }, //nolint:forbidigo // the same
		wall: time.Time.UnixMilli,
	}, nil
}

// Acquire implements [lease.Store].
func (s *Store) Acquire(ctx context.Context, r lease.Request) (lease.Lease, error) {
	const op = "acquire"
	if !r.Holder.Valid() {
		return lease.Lease{}, &lease.StoreError{Op: op, Permanent: true, Err: fmt.Errorf("%q is no holder id", r.Holder)}
	}
	return s.update(ctx, verb{op: op, key: r.Key, beats: true, change: func(st *leasestate.State, now leasestate.Instant) (lease.Lease, error) {
		return st.Acquire(r, now)
	}})
}

// Renew implements [lease.Store].
func (s *Store) Renew(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	return s.update(network.Holder(ctx), verb{op: "renew", key: l.Key, beats: true, change: func(st *leasestate.State, now leasestate.Instant) (lease.Lease, error) {
		return st.Renew(l, now)
	}})
}

// Release implements [lease.Store].
func (s *Store) Release(ctx context.Context, l lease.Lease, r lease.Result) error {
	_, err := s.update(network.Holder(ctx), verb{op: "release", key: l.Key, change: func(st *leasestate.State, now leasestate.Instant) (lease.Lease, error) {
		return lease.Lease{}, st.Release(l, r, now)
	}})
	return err
}

// Wait implements [lease.Store]. All who wait are woken. What it sees of renewals
// meanwhile counts for the next Acquire.
func (s *Store) Wait(ctx context.Context, key string, atMost time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	err := s.follow(waiting, "wait", key, func(r row) bool { return r.state.Free(s.instant(r)) })
	if waiting.Err() != nil && ctx.Err() == nil {
		return nil
	}
	if isPermanent(err) { // the next acquire tells what is wrong
		return lease.ErrNoWakeups
	}
	return err
}

// Pass does nothing: no wake-up is anybody's own.
func (s *Store) Pass(context.Context, string) error { return nil }

// Listen implements [lease.Pinger].
func (s *Store) Listen(ctx context.Context, key string) error {
	err := s.follow(network.Holder(ctx), "listen", key, func(r row) bool { return s.calls(key, r) })
	if isPermanent(err) {
		return lease.ErrNoWakeups
	}
	return err
}

func isPermanent(err error) bool {
	var failure *lease.StoreError
	return errors.As(err, &failure) && failure.Permanent
}

// Close implements [lease.Store]. Calls that are under way end by themselves.
func (s *Store) Close() error {
	s.client.close()
	return nil
}
