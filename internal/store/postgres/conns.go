package postgres

import (
	"context"
	"errors"
	"math"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leaderrun/leaderrun/internal/store/network"
)

// conns opens connections and hands them out.
type conns struct {
	url  string
	dial network.Dial
	// config is what the URL said for the last dial: passwords and certificates are
	// changed while a command runs.
	config atomic.Pointer[pgconn.Config]
	addr   string // as messages show it
	hosts  int
	// accepted: the URL's login has been accepted before.
	accepted *atomic.Bool
	*network.Pool[*conn]
}

func newConns(url string, config *pgconn.Config, dial network.Dial) *conns {
	p := &conns{url: url, dial: network.Dialer(dial), accepted: &atomic.Bool{}, Pool: network.NewPool((*conn).quit, (*conn).isCut)}
	p.config.Store(config)
	p.name(config)
	return p
}

// maxAnswer is above every row that leaderrun writes, whose state has 256 KiB at
// the most.
const maxAnswer = 1 << 20

// name counts the hosts and lists them. A host may be there twice, with TLS and
// without.
func (p *conns) name(config *pgconn.Config) {
	addrs := []string{address(config.Host, config.Port)}
	for _, f := range config.Fallbacks {
		if a := address(f.Host, f.Port); a != addrs[len(addrs)-1] {
			addrs = append(addrs, a)
		}
	}
	p.addr, p.hosts = strings.Join(addrs, ","), len(addrs)
}

func address(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// do runs one call and returns soon after ctx ends. Only a connection that gave
// an answer, and that nothing has been left open on, is kept for the next call.
func (p *conns) do(ctx context.Context, op string, call func(*conn) error) error {
	c, err := p.Take(func() (*conn, error) {
		c := &conn{}
		return c, network.CatchPanic(func() error { return c.connect(ctx, p) })
	})
	if hasState(err, tooManyConnections) {
		p.Slots.Refused()
	}
	if err != nil {
		return p.storeError(ctx, op, err)
	}
	uncut := context.AfterFunc(ctx, func() { _ = c.raw.Close() })
	err = network.CatchPanic(func() error { return call(c) })
	const noTransaction = 'I'
	if uncut() && err == nil && !c.IsClosed() && c.TxStatus() == noTransaction {
		p.Put(c)
		return nil
	}
	_ = c.raw.Close()
	if err != nil {
		return p.storeError(ctx, op, err)
	}
	return nil
}

// conn is one connection.
type conn struct {
	*pgconn.PgConn
	raw net.Conn // below TLS
	// direct says that no pooler stands in between, which may serve each request by
	// another connection of its own. It is known from the first answer on.
	direct bool
	// unconfirmed: a change was acknowledged without the replica that it was to wait
	// for.
	unconfirmed bool
	// channel is what it listens to, notified that something came from there.
	channel  string
	notified bool
}

type callKey struct{}

// connect opens the connection. Several hosts share what time there is.
func (c *conn) connect(ctx context.Context, p *conns) error {
	config, err := parseURL(p.url)
	if err != nil {
		return err
	}
	p.config.Store(config)
	// The dialer looks names up: it tries their addresses side by side, and no
	// dead one takes all of the time.
	config.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	config.MaxProtocolMessageBodyLen = maxAnswer
	if left, bounded := remaining(ctx); bounded && p.hosts > 1 {
		config.ConnectTimeout = left / time.Duration(p.hosts)
	}
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if ctx.Value(callKey{}) == nil {
			return nil, errors.New("no call asked for a connection") // but the client, to cancel
		}
		raw, err := p.dial(ctx, network, addr)
		c.raw = raw
		return raw, err
	}
	config.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) {
		c.notified = c.notified || n.Channel == c.channel
	}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		c.unconfirmed = c.unconfirmed || n.Routine == "SyncRepWaitForLSN" // a warning, and its text is in any language
	}
	c.PgConn, err = pgconn.ConnectConfig(context.WithValue(ctx, callKey{}, true), config)
	if err == nil {
		p.accepted.Store(true)
	}
	return err
}

func (c *conn) isCut() bool { return network.IsCut(c.raw) }

// quit ends an idle connection as servers and poolers like it.
func (c *conn) quit() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx)
}

// rows are what came of one statement, column by column as text; nil is NULL.
type rows [][][]byte

// statement is one of SQL and its parameters.
type statement struct {
	sql  string
	args []string
}

// prepare is run before every statement, in the same round trip and transaction.
// A request that waits for a lock must not outlive the call that made it: callers
// that come again and again would use up the server's connections. And what has
// been acknowledged must be on the disk, whatever the default here.
const prepare = `SELECT set_config('lock_timeout', coalesce(nullif($1, ''), current_setting('lock_timeout')), true),
	set_config('synchronous_commit', coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), true)`

// run executes statements in one round trip and one transaction, and returns the
// rows of the last one. They are not prepared by name, so that poolers may stand
// in between. The client does not get the context: it would go on for 15 seconds
// after the end, to cancel the request on another connection. The closed socket
// leaves it nothing to do, and lock_timeout ends the request.
func (c *conn) run(ctx context.Context, statements ...statement) (rows, error) {
	batch := &pgconn.Batch{}
	for _, s := range append([]statement{{prepare, []string{lockTimeout(ctx)}}}, statements...) {
		args := make([][]byte, len(s.args))
		for i, arg := range s.args {
			args[i] = []byte(arg)
		}
		batch.ExecParams(s.sql, args, nil, nil, nil)
	}
	results, err := c.ExecBatch(context.Background(), batch).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(results) != len(statements)+1 {
		return nil, errNoAnswer
	}
	if c.unconfirmed {
		return nil, errOneCopy
	}
	return results[len(statements)].Rows, nil
}

// lockTimeout is a little less than what is left, so that the server has time to
// say why there is no answer.
func lockTimeout(ctx context.Context) string {
	left, bounded := remaining(ctx)
	if !bounded {
		return ""
	}
	return strconv.FormatInt(min(max(1, left.Milliseconds()*9/10), math.MaxInt32), 10)
}

// remaining is the time that ctx still has, if it is bounded.
func remaining(ctx context.Context) (time.Duration, bool) {
	deadline, bounded := ctx.Deadline()
	return time.Until(deadline), bounded //nolint:forbidigo // a context's deadline is on that clock
}

// listen makes the connection hear what comes in channel, and only that.
func (c *conn) listen(channel string) error {
	if c.channel == channel {
		return nil
	}
	_, err := c.Exec(context.Background(), "UNLISTEN *; LISTEN "+channel).ReadAll()
	if err == nil {
		c.channel = channel
	}
	return err
}

// hear waits until something comes in the channel, or ctx ends.
func (c *conn) hear(ctx context.Context) error {
	for !c.notified {
		if err := c.WaitForNotification(ctx); err != nil {
			if ctx.Err() != nil && !c.IsClosed() {
				return nil
			}
			return err
		}
	}
	return nil
}
