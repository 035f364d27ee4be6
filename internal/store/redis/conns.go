package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
)

// conns hands out connections, each to one call at a time. So a renewal never
// stands behind a standby's blocking wait, whoever shares the store; and what a
// cut-off call left on its connection never reaches the next one.
//
// Each connection is a client of its own. The client's pool cannot do this: it
// reads on when a context is cancelled, and after a failed dial it answers later
// calls with the old error until a second of its own has passed. Nor do the
// client's own ways to follow sentinels and clusters: they ask again behind the
// caller's back, and in the background.
type conns struct {
	opt  redis.Options
	dial func(ctx context.Context, addr string) (net.Conn, error)

	mu     sync.Mutex
	idle   []*conn // the last one used is taken first
	closed bool
}

// conn is a connection and the context of the call that has it. The client dials
// under a context of its own; here a dial ends with the call that needed it, or
// sockets would pile up while packets vanish.
type conn struct {
	*redis.Client
	addr string
	ctx  context.Context
}

func newConns(user, password string, db int, dial func(context.Context, string) (net.Conn, error)) *conns {
	return &conns{dial: dial, opt: redis.Options{
		// The greeting carries user and password; nothing else is asked on a new
		// connection.
		Username: user, Password: password, DB: db,
		Protocol:        2,
		DisableIdentity: true,
		// A call that is repeated, or a dial, is the caller's decision, and the call's
		// context is the only clock.
		MaxRetries:    -1,
		DialerRetries: 1,
		DialTimeout:   -1, ReadTimeout: -1, WriteTimeout: -1,
		ContextTimeoutEnabled: true,
		// One connection is used. At a size of 1 the first failed dial would make the
		// pool dial on its own, in the background.
		PoolSize:         2,
		PipelinePoolSize: -1,
		ReadBufferSize:   4 << 10, WriteBufferSize: 16 << 10, // the longest script has 10 kB
	}}
}

// do runs one call at addr and returns soon after ctx ends. Only a connection
// that gave an answer is kept for the next call: after some errors servers hang
// up. And what broke one has most likely broken all.
func (p *conns) do(ctx context.Context, addr string, call func(*redis.Client) (any, error)) (any, error) {
	c, err := p.take(addr)
	if err != nil {
		return nil, err
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
	if err != nil && !isReply(err) && !errors.Is(ctx.Err(), context.Canceled) {
		p.drop(addr)
	}
	return v, err
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

func (p *conns) take(addr string) (*conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	for i, c := range slices.Backward(p.idle) {
		if c.addr == addr {
			p.idle = slices.Delete(p.idle, i, i+1)
			return c, nil
		}
	}
	opt, c := p.opt, &conn{addr: addr}
	opt.Addr = addr
	opt.Dialer = func(context.Context, string, string) (net.Conn, error) { return p.dial(c.ctx, addr) }
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

// drop closes the idle connections to addr.
func (p *conns) drop(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = slices.DeleteFunc(p.idle, func(c *conn) bool {
		if c.addr != addr {
			return false
		}
		_ = c.Close()
		return true
	})
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
