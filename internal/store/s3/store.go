// Package s3 keeps leases in objects of a bucket: of Amazon S3, or of a server with its API that
// compares conditions of writes.
//
// Promise: that of [keep.Store]. A key is one object, whose body is the state and a random word, so
// no two bodies have the same ETag. A write names the ETag that was read (If-Match), or that there
// is no object (If-None-Match); after a conflict the object is read again. The first write of each
// kind is sent twice: a server that takes it again does not compare, and grants nothing. A Date is by
// the clock of the server that answers. Objects are never deleted, since they keep the tokens.
//
// Nobody can be called or woken: holders learn of everything by their next renewal, and standbys
// ask again and again. So a key settles for as long as a renewal may take to come.
//
// Not promised: a bucket into which older objects are restored lacks later grants and does not say
// so. A server that compares but lets two writes at a time pass can grant twice: the doctor looks for that.
// Deleting an object takes the lease away.
//
// Cost: a grant or a renewal is a GET and a PUT, a denial a GET. Each is paid for; therefore TTLs
// below 10 s are refused.
//
// Only package store and tests may import it.
package s3

import (
	"cmp"
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/location"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// Options say where the leases are.
type Options = location.Options

// Store is a [lease.Store] in one bucket. The context is the only bound of a call.
type Store struct {
	*keep.Store
	url   string
	place place
	dir   string // begins the names of all objects
	http  *http.Client
	login login
	// accepted is what the server has accepted before, by the methods of requests, and the
	// conditions that it is known to compare.
	accepted network.Accepted
	// ahead is how far the server's clock is ahead of this host's, if a request was refused for that.
	ahead atomic.Int64
}

var _ lease.Examiner = (*Store)(nil)

// shortest is the shortest TTL: each renewal is paid for.
const shortest = 10 * time.Second

// New returns a store without a connection: the first call opens one. An error is a
// *lease.StoreError.
func New(o Options) (*Store, error) { return open(o, os.Getenv) }

func open(o Options, e env) (*Store, error) {
	p, err := location.Parse(urls, o, parseURL)
	if err != nil {
		return nil, err
	}
	if err := p.complete(e); err != nil {
		return nil, err
	}
	o.WarnIfInsecure(p.tls)
	s := &Store{url: o.URL, place: p, dir: p.prefix + fileName(o.Prefix) + "/"}
	s.http = network.HTTP(o.Dialer, s.tls)
	s.login = newLogin(e, p.region, o.Dialer)
	s.Store = keep.New(keep.Config{Do: s.do, Hear: s.hear, Instant: rules.Instant{Boot: scheme, Settle: keep.Settle, Uncalled: true, Apart: network.Apart}})
	return s, nil
}

// complete adds what the address leaves open.
func (p *place) complete(e env) (err error) {
	with, unreadable := e.profile()
	p.region = cmp.Or(p.region, e("AWS_REGION"), e("AWS_DEFAULT_REGION"), with.values["region"])
	if p.endpoint == "" {
		p.endpoint, err = endpoint(cmp.Or(e("AWS_ENDPOINT_URL_S3"), e("AWS_ENDPOINT_URL"), with.values["endpoint_url"]),
			"AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or endpoint_url of the profile "+with.name)
	}
	switch {
	case err != nil:
		return err
	case p.region == "" && p.endpoint != "":
		p.region = "us-east-1" // what other servers are set to
	case p.region == "" && unreadable != nil:
		return unreadable
	case p.region == "":
		return urls.Refusal("no region is named", "add ?region=REGION to the store's URL, or set AWS_REGION: the region of the bucket")
	case !location.IsName(p.region):
		return urls.Refusal("AWS_REGION, AWS_DEFAULT_REGION or region of the profile "+with.name+" names no region", "write one like eu-central-1")
	}
	return nil
}

// tls returns the TLS configuration for the next connection: the files may have changed.
func (s *Store) tls(context.Context) (*tls.Config, error) {
	p, err := parseURL(s.url)
	return p.tls, err
}

// do runs a call, and returns its error as a *lease.StoreError.
func (s *Store) do(ctx context.Context, op string, call func(context.Context, keep.Keeper) error) error {
	if err := call(ctx, keeper{s}); err != nil {
		return s.storeError(ctx, op, err)
	}
	return nil
}

// hear answers that S3 has no bells.
func (s *Store) hear(context.Context, keep.Bell, string, func(keep.Row) bool) error {
	return lease.ErrNoWakeups
}

// Close implements [lease.Store]. Calls that are under way end by themselves.
func (s *Store) Close() error {
	s.http.CloseIdleConnections()
	return nil
}
