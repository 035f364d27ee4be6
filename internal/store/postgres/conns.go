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

// conns opens connections and hands them out, each to one call at a time.
type conns struct {
	url  string
	dial network.Dial
	// config is what the URL and its files said at the last dial: passwords and certificates
	// may change while a command runs.
	config atomic.Pointer[pgconn.Config]
	addr   string // as messages show it
	hosts  int
	// accepted is what the server has accepted before.
	accepted *network.Accepted
	*network.Pool[*conn]
}

func newConns(url string, config *pgconn.Config, dial network.Dial) *conns {
	p := &conns{url: url, dial: network.Dialer(dial), accepted: &network.Accepted{}, Pool: network.NewPool((*conn).quit, (*conn).isCut)}
	p.config.Store(config)
	p.name(config)
	return p
}

// maxAnswer is larger than any row that leaderrun writes: a state has 256 KiB at most.
const maxAnswer = 1 << 20

// name lists and counts the hosts. The config may have a host twice, with TLS and without.
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

// do runs one call and returns soon after ctx ends. A connection is kept for the next call
// only if it gave an answer and has no open transaction.
func (p *conns) do(ctx context.Context, op string, call func(*conn) error) error {
	c, err := p.Take(func() (*conn, error) {
		c := &conn{}
		return c, network.CatchPanic(func() error { return c.connect(ctx, p) })
	})
	if hasState(err, tooManyConnections) || hasState(err, poolerError) && strings.Contains(err.Error(), maxClients) {
		p.Slots.Refused()
	}
	if err != nil {
		return p.storeError(ctx, op, err)
	}
	uncut := context.AfterFunc(ctx, func() { _ = c.raw.Close() })
	err = network.CatchPanic(func() error { return call(c) })
	const noTransaction = 'I'
	if err == nil {
		p.accepted.Call(op)
	}
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
	// direct says that there is no pooler, which may use another connection for each
	// request. It is known after the first answer.
	direct bool
	// unconfirmed: the server acknowledged a change without waiting for its replica.
	unconfirmed bool
	// channel is the channel it listens to; notified: a notification came from there.
	channel  string
	notified bool
}

type callKey struct{}

// connect opens the connection. If there are several hosts, each gets its share of the time.
func (c *conn) connect(ctx context.Context, p *conns) error {
	config, err := parseURL(p.url)
	if err != nil {
		return err
	}
	p.config.Store(config)
	// The dialer looks names up. It tries the addresses of a name in parallel, so that a dead
	// one does not take all of the time.
	config.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	config.MaxProtocolMessageBodyLen = maxAnswer
	if p.hosts > 1 {
		config.ConnectTimeout = network.Left(ctx) / time.Duration(p.hosts)
	}
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if ctx.Value(callKey{}) == nil {
			return nil, errors.New("no call asked for a connection") // only the client does, to cancel a request
		}
		raw, err := p.dial(ctx, network, addr)
		c.raw = raw
		return raw, err
	}
	config.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) {
		c.notified = c.notified || n.Channel == c.channel
	}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		c.unconfirmed = c.unconfirmed || n.Routine == "SyncRepWaitForLSN" // a warning whose text depends on the server's language
	}
	c.PgConn, err = pgconn.ConnectConfig(context.WithValue(ctx, callKey{}, true), config)
	if err == nil {
		p.accepted.Login()
	}
	return err
}

func (c *conn) isCut() bool { return network.IsCut(c.raw) }

// quit ends an idle connection with the message that servers and poolers expect.
func (c *conn) quit() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx)
}

// rows is the result of one statement. Each column is text, or nil for NULL.
type rows [][][]byte

// statement is an SQL statement and its parameters.
type statement struct {
	sql  string
	args []string
}

// prepare is run before every statement, in the same round trip and transaction. A request
// that waits for a lock must end with its call: repeated calls would use up the server's
// connections. And what was acknowledged must be on the disk, whatever the server's default.
const prepare = `SELECT set_config('lock_timeout', $1, true),
	set_config('synchronous_commit', coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), true)`

// run executes statements in one round trip and one transaction, and returns the rows of the
// last one. They are not prepared by name, because of poolers. The client does not get the
// context: after its end it would try for 15 seconds to cancel the request on another
// connection. Instead the socket is closed, and lock_timeout ends the request.
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

// lockTimeout returns a little less than the time that ctx still has, so that the server can
// still say why there is no answer.
func lockTimeout(ctx context.Context) string {
	return strconv.FormatInt(min(max(1, network.Left(ctx).Milliseconds()*9/10), math.MaxInt32), 10)
}

// listen makes the connection listen to channel, and to no other.
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

// hear waits until a notification comes, or ctx ends.
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
