package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"
)

// conns hands out connections, each to one call at a time. So a renewal never
// stands behind a standby's blocking wait, whoever shares the store; and what a
// cut-off call left on its connection never reaches the next one.
//
// Each connection is a client of its own. The client's pool cannot do this: it
// reads on when a context is cancelled, and after a failed dial it answers later
// calls with the old error until a second of its own has passed.
type conns struct {
	opt redis.Options

	mu     sync.Mutex
	idle   []*conn // the last one used is taken first
	closed bool
}

// conn is a connection and the context of the call that has it. The client dials
// under a context of its own; here a dial ends with the call that needed it, or
// sockets would pile up while packets vanish.
type conn struct {
	*redis.Client
	ctx context.Context
}

func newConns(opt *redis.Options, dialer func(context.Context, string, string) (net.Conn, error)) *conns {
	o := *opt
	o.Dialer = dialer
	if dialer == nil {
		o.Dialer = (&net.Dialer{}).DialContext
	}
	// The greeting carries user and password; nothing else is asked on a new
	// connection.
	o.Protocol = 2
	o.DisableIdentity = true
	// A call that is repeated, or a dial, is the caller's decision, and the call's
	// context is the only clock.
	o.MaxRetries = -1
	o.DialerRetries = 1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = -1, -1, -1
	o.ContextTimeoutEnabled = true
	// One connection is used. At a size of 1 the first failed dial would make the
	// pool dial on its own, in the background.
	o.PoolSize = 2
	o.PipelinePoolSize = -1
	o.ReadBufferSize, o.WriteBufferSize = 4<<10, 16<<10 // the longest script has 10 kB
	return &conns{opt: o}
}

// do runs one call and returns soon after ctx ends. Only a connection that gave
// an answer is kept for the next call: after some errors servers hang up.
func (p *conns) do(ctx context.Context, op string, call func(*redis.Client) (any, error)) (any, error) {
	c, err := p.take()
	if err != nil {
		return nil, p.storeError(ctx, op, err)
	}
	c.ctx = ctx
	uncut := context.AfterFunc(ctx, func() { _ = c.Close() })
	v, err := guarded(c.Client, call)
	if errors.Is(err, redis.Nil) {
		v, err = nil, nil // an answer: nothing
	}
	if uncut() && err == nil {
		p.put(c)
		return v, nil
	}
	_ = c.Close()
	if err != nil {
		return nil, p.storeError(ctx, op, err)
	}
	return v, nil
}

// guarded turns a panic of the client into an error: it panics on lengths that
// no Redis sends, and a service on the wrong port must not end the elector.
func guarded(c *redis.Client, call func(*redis.Client) (any, error)) (v any, err error) {
	defer func() {
		if r := recover(); r != nil {
			v, err = nil, fmt.Errorf("unreadable answer: %v", r)
		}
	}()
	return call(c)
}

func (p *conns) take() (*conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return c, nil
	}
	opt, c := p.opt, &conn{}
	opt.Dialer = func(_ context.Context, network, addr string) (net.Conn, error) {
		return p.opt.Dialer(c.ctx, network, addr)
	}
	c.Client = redis.NewClient(&opt)
	return c, nil
}

func (p *conns) put(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close()
		return
	}
	p.idle = append(p.idle, c)
}

func (p *conns) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		_ = c.Close()
	}
	p.idle = nil
}

// The client logs to standard error by default; everything it could say comes
// back as an error as well.
func init() { redis.SetLogger(silence{}) }

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
