package network

import (
	"context"
	"net"
	"sync"
	"time"
)

// lookupFunc returns the addresses of a host.
type lookupFunc func(ctx context.Context, host string) ([]net.IPAddr, error)

// resolver looks hosts up. A lookup may take longer than an attempt to reach the store: one
// of a resolver whose first name server is dead takes 5 s and more. So it goes on when the
// attempt ends, once at a time for a host, and the next attempt finds what it has found.
// Several goroutines may use it.
type resolver struct {
	lookup lookupFunc

	mu      sync.Mutex
	running map[string]*lookup // by host
}

// lookup is one lookup.
type lookup struct {
	over  chan struct{} // closed when it has ended
	ended time.Time
	ips   []net.IPAddr
	err   error
	taken bool // an attempt has its result
}

// keepAddresses is how long addresses that came too late for their attempt are kept for the
// next one. The pause between two attempts is shorter, unless a TTL is longer than 3 minutes;
// then an attempt lasts longer than a lookup.
const keepAddresses = 30 * time.Second

func newResolver(f lookupFunc) *resolver { return &resolver{lookup: f, running: map[string]*lookup{}} }

// addresses returns the addresses of a host. It returns a little before ctx ends, so that its
// caller can still say why there is no connection. Its lookup goes on.
func (r *resolver) addresses(ctx context.Context, host string) ([]net.IPAddr, error) {
	ctx, cancel := context.WithTimeout(ctx, Left(ctx)/20*19)
	defer cancel()
	l := r.join(host)
	select {
	case <-l.over:
	case <-ctx.Done():
		return nil, &net.DNSError{Err: "no answer in time", Name: host, IsTimeout: true}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l.taken = true
	return l.ips, l.err
}

// join returns the lookup of a host that is under way or has an unused result, or begins one.
func (r *resolver) join(host string) *lookup {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.running[host]; l != nil && l.usable() {
		return l
	}
	l := &lookup{over: make(chan struct{})}
	r.running[host] = l
	go func() {
		ips, err := r.lookup(context.Background(), host) // resolv.conf limits it
		r.mu.Lock()
		defer r.mu.Unlock()
		l.ips, l.err, l.ended = ips, err, time.Now() //nolint:forbidigo // only to forget what is old
		close(l.over)
	}()
	return l
}

// usable reports whether an attempt may still take the lookup's result.
func (l *lookup) usable() bool {
	if l.ended.IsZero() {
		return true
	}
	return !l.taken && l.err == nil && time.Since(l.ended) < keepAddresses //nolint:forbidigo // the same
}
