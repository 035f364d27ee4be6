// Package kubernetes keeps leases in Lease objects (coordination.k8s.io/v1) of the
// cluster, by its API and net/http.
//
// Promise: that of [cas.Store]. A key is one object, which is replaced by an update with
// the resourceVersion that was read; a conflict means read again. The whole state is an
// annotation of it; holder, duration and times in its spec are what other programs see,
// and heed. A Date is on the clock of the API server that answers. Objects are never
// deleted: the token is in them.
//
// Other programs that keep to the rules of Leases exclude leaderrun and are excluded: see
// heed. So does a person who writes another holder into the spec.
//
// Cost: a grant or a renewal is a read and a write, a denial a read; each write is one to
// the cluster's etcd, some 2 KiB. TTLs below 10 s are refused therefore. A standby has one
// connection, a leader two.
//
// Not promised: a cluster that was restored from a backup knows less than was granted,
// and does not say so: object, uid and resourceVersion are those of then. A holder that
// is alive sees by its watch that its last renewal is not there, and puts its lease back
// if no candidate has come before. Deleting an object takes the lease away.
//
// Only package store and tests may import it.
package kubernetes

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/cas"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// Options says where the leases are: URL is kubernetes:[//[CONTEXT/]NAMESPACE], and Prefix
// starts the names of all objects.
type Options = network.Options

// Store is a [lease.Store] in one namespace of one cluster. The context is the only
// bound of a call.
type Store struct {
	*cas.Store
	prefix string
	where  place
	// latest is what the files said when they were last readable.
	latest atomic.Pointer[access]
	http   *http.Client
	// accepted: the API server has accepted the login before.
	accepted atomic.Bool
	// allowed has the kinds of requests that were not forbidden.
	allowed     sync.Map
	credentials credentials
}

var (
	_ lease.Store    = (*Store)(nil)
	_ lease.Pinger   = (*Store)(nil)
	_ lease.Admin    = (*Store)(nil)
	_ lease.Examiner = (*Store)(nil)
)

const (
	boot = "kubernetes"
	// settle is how long, in ms, a key waits for a holder that may be alive without the
	// store knowing.
	settle = 300
	// apart is by how much, in ms, the Dates of two API servers may differ: their clocks
	// by half a minute, and the second in which each counts.
	apart = 31_000
	// shortest is the shortest TTL: each renewal is a write to the cluster's etcd.
	shortest = 10 * time.Second
)

// New makes a store and opens no connection: the first call does. How the API server is
// reached comes from the pod or the kubeconfig. An error is a *lease.StoreError.
func New(o Options) (*Store, error) {
	where, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	where.host, where.port = os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	where.account, where.files = account, filepath.SplitList(os.Getenv("KUBECONFIG"))
	return open(o, where)
}

func open(o Options, where place) (*Store, error) {
	if o.Prefix == "" {
		return nil, refusal("the prefix of the keys is empty", "leave --prefix out, or give it a value")
	}
	a, err := where.find()
	if err != nil {
		return nil, err
	}
	where.context, where.namespace = a.context, a.namespace
	s := &Store{prefix: o.Prefix, where: where}
	s.latest.Store(&a)
	s.http = network.HTTP(o.Dialer, s.tls)
	s.Store = cas.NewStore(cas.Config{Do: s.do, Follow: s.follow, Boot: boot, Settle: settle, Apart: apart})
	return s, nil
}

// do runs a call, and returns its error as a *lease.StoreError.
func (s *Store) do(ctx context.Context, op string, call func(context.Context, cas.Keeper) error) error {
	if err := call(ctx, keeper{s}); err != nil {
		return s.storeError(ctx, op, err)
	}
	return nil
}

// Acquire implements [lease.Store].
func (s *Store) Acquire(ctx context.Context, r lease.Request) (lease.Lease, error) {
	if r.TTL < shortest {
		return lease.Lease{}, &lease.StoreError{
			Op: "acquire", Permanent: true, Err: fmt.Errorf("a TTL of %s is too short for Kubernetes, where every renewal is a write of the cluster", r.TTL),
			Hint: fmt.Sprintf("--ttl %s or longer", shortest),
		}
	}
	return s.Store.Acquire(ctx, r)
}

// Close implements [lease.Store]. Calls that are under way end by themselves.
func (s *Store) Close() error {
	s.http.CloseIdleConnections()
	return nil
}
