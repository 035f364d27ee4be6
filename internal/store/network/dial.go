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
	"time"
)

// Dial opens a connection.
type Dial func(ctx context.Context, network, addr string) (net.Conn, error)

const (
	// hedgeAfter is the time between two attempts of one hedged dial. A store that comes
	// back without its data waits 300 ms for the holder, while the kernel repeats a SYN
	// only after 1, 3 and 7 s.
	hedgeAfter = 150 * time.Millisecond
	// hedgeLimit bounds all attempts but the first, so at most seven others run at a time.
	hedgeLimit = time.Second
)

// keepAlive notices within 3 s that the server's host is gone. A holder that waits to be
// called must notice that before the host is back.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 2}

// Dialer returns the dial of a store, which uses dial if it is not nil. A holder's dial is
// hedged: as long as none is answered it starts further attempts, and closes all but the
// first that is answered. Candidates dial once: they are many, and have time.
func Dialer(dial Dial) Dial {
	holders := dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
		holders = (&net.Dialer{KeepAliveConfig: keepAlive}).DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if ctx.Value(holderKey{}) == nil || network == "unix" {
			return dial(ctx, network, addr)
		}
		return hedged(ctx, holders, network, addr)
	}
}

type holderKey struct{}

// Holder marks the calls of a holder: their dials are hedged.
func Holder(ctx context.Context) context.Context { return context.WithValue(ctx, holderKey{}, true) }

func hedged(ctx context.Context, dial Dial, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		conn net.Conn
		err  error
	}
	answers, over := make(chan answer), make(chan struct{})
	defer close(over)
	attempt := func(bounded context.Context, end context.CancelFunc) {
		defer end()
		c, err := dial(bounded, network, addr)
		if bounded != ctx && IsTimeout(err) { // maybe before its context ends; the others go on
			return
		}
		select {
		case answers <- answer{c, err}:
		case <-over:
			if err == nil {
				_ = c.Close()
			}
		}
	}
	go attempt(ctx, func() {}) // it lasts as long as the call
	ticker := time.NewTicker(hedgeAfter)
	defer ticker.Stop()
	for {
		select {
		case a := <-answers:
			return a.conn, a.err
		case <-ticker.C:
			go attempt(context.WithTimeout(ctx, hedgeLimit))
		}
	}
}
