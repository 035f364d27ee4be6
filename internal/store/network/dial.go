// Package network is what the stores share that are reached by a network: how
// connections are opened, what follows when the server has none left, and the words of
// their errors.
//
// It knows no protocol and no store. Only the stores may import it.
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
	// back without its memory gives a holder 300 ms; the kernel repeats a SYN after
	// 1, 3 and 7 s only.
	hedgeAfter = 150 * time.Millisecond
	// hedgeLimit is how long an attempt lasts that is not the first: so besides the first
	// there are seven at the same time, at most.
	hedgeLimit = time.Second
)

// keepAlive notices within 3 s that the host at the other end is gone. A holder that
// waits to be called must notice before that host is back.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 2}

// Dialer opens the connections of a store, by dial if there is one. What a holder
// opens is hedged: while there is no answer there are further attempts, the first
// answer counts, and the other attempts are closed. Candidates are many and have
// time: they dial once.
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

// Holder marks the calls of a holder.
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
		if err != nil && bounded != ctx && bounded.Err() != nil { // the others go on
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
