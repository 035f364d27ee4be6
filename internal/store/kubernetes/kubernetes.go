// Package kubernetes keeps leases in Lease objects (coordination.k8s.io/v1) of a cluster.
//
// Promise: that of [keep.Store]. A key is one object. An update names the resourceVersion that
// was read; after a conflict the object is read again. An annotation has the whole state, and
// the spec has the holder, duration and times for other programs. A Date is by the clock of
// the API server that answers. Objects are never deleted, since they keep the tokens.
//
// Other programs that follow the rules of Leases exclude leaderrun and are excluded by it
// (see foreign). So does a person who writes another holder into the spec.
//
// Not promised: a cluster that was restored from a backup lacks later grants and does not say
// so: object, uid and resourceVersion are old ones, too. A living holder notices by its watch
// that its last renewal is missing, and restores its lease if no candidate comes first.
// Deleting an object takes the lease away.
//
// Cost: a grant or a renewal is a read and a write, a denial a read. Each write is one to the
// cluster's etcd, some 2 KiB; therefore TTLs below 10 s are refused. A standby has one
// connection, a leader two.
//
// Only package store and tests may import it.
package kubernetes

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/location"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// Options say where the leases are: URL is kubernetes:[//[CONTEXT/]NAMESPACE], and Prefix
// begins the names of all objects.
type Options = location.Options

// Store is a [lease.Store] in one namespace of one cluster. The context is the only
// bound of a call.
type Store struct {
	*keep.Store
	prefix string
	where  place
	// latest is the content of the files when they were last readable.
	latest atomic.Pointer[access]
	http   *http.Client
	// accepted is what the API server has accepted before, by the kinds of requests.
	accepted    network.Accepted
	credentials network.Login[credential]
}

var _ lease.Examiner = (*Store)(nil)

// shortest is the shortest TTL: each renewal is a write to the cluster's etcd.
const shortest = 10 * time.Second

// New returns a store without a connection: the first call opens one. The pod or the
// kubeconfig says how to reach the API server. An error is a *lease.StoreError.
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
	o.WarnIf(a.insecure, "insecure-skip-tls-verify in the kubeconfig", "give the cluster its certificate-authority instead")
	where.context, where.namespace = a.context, a.namespace
	s := &Store{prefix: o.Prefix, where: where}
	s.latest.Store(&a)
	s.http = network.HTTP(o.Dialer, s.tls)
	s.Store = keep.New(keep.Config{Do: s.do, Hear: s.hear, Follows: true, Instant: rules.Instant{Boot: "kubernetes", Settle: keep.Settle, Apart: network.Apart}})
	return s, nil
}

// do runs a call, and returns its error as a *lease.StoreError.
func (s *Store) do(ctx context.Context, op string, call func(context.Context, keep.Keeper) error) error {
	if err := call(ctx, keeper{s}); err != nil {
		return s.storeError(ctx, op, err)
	}
	return nil
}

// Close implements [lease.Store]. Calls that are under way end by themselves.
func (s *Store) Close() error {
	s.http.CloseIdleConnections()
	return nil
}
