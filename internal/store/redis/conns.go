package redis

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/leaderrun/leaderrun/internal/store/network"
)

// conns hands out connections, each to one call at a time. So a renewal never waits until a
// standby's blocking call on the same store ends, and the rest of an interrupted call's
// answer never reaches the next call.
//
// Each connection is a client of its own. The client's pool will not do: it
// goes on reading when a context is cancelled, and after a failed dial it returns the old
// error for a second. Nor will the client's own support for sentinels and clusters: it
// repeats requests by itself, and in the background.
type conns struct {
	opt  redis.Options
	dial func(ctx context.Context, addr string) (net.Conn, *target, error)
	who  func(*target) (user, password string)

	*network.Pool[*conn]
	// accepted is what the servers have accepted before.
	accepted *network.Accepted
}

// conn is a connection and the context of the call that uses it. A dial ends with that
// context, not with the client's own: otherwise sockets would pile up while packets vanish.
type conn struct {
	*redis.Client
	addr string
	ctx  context.Context
	warm bool // it has been answered

	// Of the last dial: the connection, and the login as it was read then.
	opened         net.Conn
	user, password string
}

// newConns returns no connection yet. dial opens one, and returns the address's target as it
// is then; who returns the login of a target.
func newConns(db int, who func(*target) (user, password string), dial func(context.Context, string) (net.Conn, *target, error)) *conns {
	pool := network.NewPool(func(c *conn) { _ = c.Close() }, func(c *conn) bool { return c.opened != nil && network.IsCut(c.opened) })
	return &conns{Pool: pool, dial: dial, who: who, accepted: &network.Accepted{}, opt: redis.Options{
		// The greeting has user and password; a new connection sends nothing else.
		DB:              db,
		Protocol:        2,
		DisableIdentity: true,
		// Otherwise each new client looks up the server's name, for 2 s if need be, whatever
		// the call's context says.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		// Only the caller repeats a call or a dial, and only the call's context bounds it.
		MaxRetries:    -1,
		DialerRetries: 1,
		DialTimeout:   -1, ReadTimeout: -1, WriteTimeout: -1,
		ContextTimeoutEnabled: true,
		// Only one connection is used, but with a size of 1 a failed dial would make the pool
		// dial by itself in the background.
		PoolSize:         2,
		PipelinePoolSize: -1,
		ReadBufferSize:   4 << 10, WriteBufferSize: 12 << 10, // the longest request has 10 kB
	}}
}

// do runs one call at addr and returns soon after ctx ends. A connection is kept for the next
// call only if it gave an answer: after some errors servers close it. Whatever broke one
// connection has probably broken all, so then the idle ones are closed, too.
func (p *conns) do(ctx context.Context, addr string, call func(*redis.Client) (any, error)) (any, error) {
	c, err := p.take(addr)
	if err != nil {
		return nil, err
	}
	c.ctx = ctx
	uncut := context.AfterFunc(ctx, func() { _ = c.Close() })
	var v any
	err = network.CatchPanic(func() (err error) { v, err = call(c.Client); return err })
	if errors.Is(err, redis.Nil) {
		v, err = nil, nil // nil is an answer
	}
	if err == nil && !c.warm {
		c.warm = true
		p.accepted.Login()
		p.Slots.Admitted()
	}
	if uncut() && err == nil {
		p.Put(c)
		return v, nil
	}
	_ = c.Close()
	if noSlot(err) {
		p.Slots.Refused()
	}
	if err != nil && !isReply(err) && !errors.Is(ctx.Err(), context.Canceled) {
		p.drop(addr)
	}
	return v, err
}

// ask is do for a question that changes nothing. A kept connection may be broken, so it has half of
// the time, and then a new one the rest.
func (p *conns) ask(ctx context.Context, addr string, question func(*redis.Client) (any, error)) (any, error) {
	if p.keeps(addr) {
		half, cancel := context.WithTimeout(ctx, network.Left(ctx)/2)
		defer cancel()
		v, err := p.do(half, addr, question)
		if err == nil || isReply(err) || ctx.Err() != nil {
			return v, err
		}
	}
	return p.do(ctx, addr, question)
}

// keeps reports whether there is an idle connection to addr.
func (p *conns) keeps(addr string) bool { return slices.ContainsFunc(p.Idle(), at(addr)) }

// drop closes the idle connections to addr.
func (p *conns) drop(addr string) { p.Drop(at(addr)) }

func at(addr string) func(*conn) bool { return func(c *conn) bool { return c.addr == addr } }

func (p *conns) take(addr string) (*conn, error) {
	c, found, err := p.TakeIdle(at(addr))
	if found || err != nil {
		return c, err
	}
	opt := p.opt
	opt.Addr, c = addr, &conn{addr: addr}
	opt.Dialer = func(context.Context, string, string) (net.Conn, error) {
		opened, now, err := p.dial(c.ctx, addr)
		if err == nil {
			c.opened = opened
			c.user, c.password = p.who(now)
		}
		return opened, err
	}
	opt.CredentialsProviderContext = func(context.Context) (user, password string, err error) {
		return c.user, c.password, nil
	}
	c.Client = redis.NewClient(&opt)
	return c, nil
}

// plain is a connection without TLS that reports if the server has too many clients. The
// server says so and closes the connection before the first request comes, and the client
// takes any error in the first answer for that of a server that knows no greeting.
type plain struct {
	fromKernel
	answered bool
}

// fromKernel is a connection that lets the client check whether it is still open.
type fromKernel interface {
	net.Conn
	syscall.Conn
}

var errTooManyClients = errors.New("max number of clients reached")

func (c *plain) Write(p []byte) (int, error) {
	n, err := c.fromKernel.Write(p)
	if network.HungUp(err) && !c.answered { // the next Read reports it, or that there are too many clients
		return len(p), nil
	}
	return n, err
}

func (c *plain) Read(p []byte) (int, error) {
	n, err := c.fromKernel.Read(p)
	if !c.answered && bytes.HasPrefix(p[:n], []byte("-ERR "+errTooManyClients.Error())) {
		return 0, errTooManyClients
	}
	c.answered = c.answered || n > 0
	return n, err
}

// limited is a connection that bounds the length of an answer, which the client keeps in
// memory.
type limited struct {
	fromKernel
	read atomic.Int64 // since the last request, which another goroutine may write
}

const maxAnswer = 16 << 20 // more than a page of keys needs

var errTooLong = errors.New("it answers with more than 16 MiB")

func (c *limited) Write(p []byte) (int, error) {
	c.read.Store(0)
	return c.fromKernel.Write(p)
}

func (c *limited) Read(p []byte) (int, error) {
	if c.read.Load() > maxAnswer {
		return 0, errTooLong
	}
	n, err := c.fromKernel.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// By default the client logs to standard error. Whatever it logs is also returned as an
// error.
func init() { redis.SetLogger(silence{}) }

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
