// Package network is what networked stores share: it opens connections, keeps them for the
// next call, gives them up when the server has too few, and words errors.
//
// Promise: a dial and a TLS handshake end with their context, a connection is used by one
// call at a time, and no error shows a password that its caller names. Not promised: it
// repeats no request, and knows no protocol and no store. Only the stores may import it.
package network

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// Dial opens a connection.
type Dial func(ctx context.Context, network, addr string) (net.Conn, error)

const (
	// hedgeAfter is the time between two attempts of one hedged dial, and between two
	// addresses of a name. A store that comes back without its data waits 300 ms for the
	// holder, while the kernel repeats a SYN only after 1, 3 and 7 s.
	hedgeAfter = 150 * time.Millisecond
	// hedgeLimit bounds all attempts but the first, so at most seven others run at a time.
	hedgeLimit = time.Second
)

// keepAlive notices within 3 s that the server's host is gone. A holder that waits to be
// called must notice that before the host is back.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 2}

// Dialer returns the dial of a store, which uses dial if it is not nil. A holder's dial is
// hedged: as long as none is answered it starts further attempts, and closes all but the
// first that is answered. Candidates dial once: they are many, and have time. Without dial,
// every attempt tries all addresses of a name, and a lookup outlives its attempt.
func Dialer(dial Dial) Dial {
	holders := dial
	if dial == nil {
		names := newResolver(func(ctx context.Context, host string) ([]net.IPAddr, error) {
			return net.DefaultResolver.LookupIPAddr(ctx, host)
		})
		dial = race((&net.Dialer{}).DialContext, names.addresses)
		holders = race((&net.Dialer{KeepAliveConfig: keepAlive}).DialContext, names.addresses)
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if !IsHolder(ctx) || network == "unix" {
			return dial(ctx, network, addr)
		}
		return hedged(ctx, holders, network, addr)
	}
}

type holderKey struct{}

// Holder marks the calls of a holder: their dials are hedged.
func Holder(ctx context.Context) context.Context { return context.WithValue(ctx, holderKey{}, true) }

// IsHolder reports whether a call is marked as a holder's.
func IsHolder(ctx context.Context) bool { return ctx.Value(holderKey{}) != nil }

// answers passes on the answers of attempts until one is used; over is closed then.
type answers struct {
	first chan answer
	over  chan struct{}
}

type answer struct {
	conn net.Conn
	err  error
}

func newAnswers() answers { return answers{make(chan answer), make(chan struct{})} }

// pass passes an answer on, or closes a connection that comes too late.
func (a answers) pass(c net.Conn, err error) {
	select {
	case a.first <- answer{c, err}:
	case <-a.over:
		if err == nil {
			_ = c.Close()
		}
	}
}

func hedged(ctx context.Context, dial Dial, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := newAnswers()
	defer close(answers.over)
	attempt := func(bounded context.Context, end context.CancelFunc) {
		defer end()
		c, err := dial(bounded, network, addr)
		if bounded != ctx && IsTimeout(err) { // maybe before its context ends; the others go on
			return
		}
		answers.pass(c, err)
	}
	go attempt(ctx, func() {}) // it lasts as long as the call
	ticker := time.NewTicker(hedgeAfter)
	defer ticker.Stop()
	for {
		select {
		case a := <-answers.first:
			return a.conn, a.err
		case <-ticker.C:
			go attempt(context.WithTimeout(ctx, hedgeLimit))
		}
	}
}

// race returns a dial that tries all addresses of a name in the resolver's order, in the manner
// of RFC 8305: each as soon as the one before it has failed, or has not answered for a while.
// It closes all but the first that answers. net.Dialer waits at least 2 s for each address of
// a family, which is all the time of an attempt for a TTL of 30 s.
func race(dial Dial, lookup lookupFunc) Dial {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if network == "unix" {
			return dial(ctx, network, addr)
		}
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		if _, err := netip.ParseAddr(host); err == nil {
			return dial(ctx, network, addr)
		}
		ips, err := lookup(ctx, host)
		if err != nil {
			return nil, err
		}
		after := min(hedgeAfter, Left(ctx)/time.Duration(len(ips)+1)) // the last one needs time, too
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		answers := newAnswers()
		defer close(answers.over)
		next := time.NewTimer(0)
		defer next.Stop()
		var failure error
		for tried, failed := 0, 0; failed < len(ips); {
			select {
			case a := <-answers.first:
				if a.err == nil {
					return a.conn, nil
				}
				if failed++; failure == nil || IsTimeout(a.err) { // an address that does not answer may have a server all the same
					failure = a.err
				}
				next.Reset(0)
			case <-next.C:
				if tried < len(ips) {
					ip := ips[tried].String()
					go func() { answers.pass(dial(ctx, network, net.JoinHostPort(ip, port))) }()
					tried++
					next.Reset(after)
				}
			}
		}
		return nil, failure
	}
}
