package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"

	"github.com/leaderrun/leaderrun/internal/store/network"
)

// conns opens connections and hands them out, each to one call at a time.
type conns struct {
	url  string
	dial network.Dial
	// latest is what the URL and its files said at the last dial: passwords and certificates
	// may change while a command runs.
	latest atomic.Pointer[target]
	// accepted is what the server has accepted before.
	accepted *network.Accepted
	*network.Pool[*conn]
}

func newConns(url string, t *target, dial network.Dial) *conns {
	p := &conns{url: url, dial: network.Dialer(dial), accepted: &network.Accepted{}}
	p.Pool = network.NewPool(func(c *conn) { _ = c.Close() }, func(c *conn) bool { return network.IsCut(c.raw) })
	p.latest.Store(t)
	return p
}

// do runs one call and returns soon after ctx ends. Only a connection that gave an
// answer and is still open is kept for the next call.
func (p *conns) do(ctx context.Context, op string, call func(*conn) error) error {
	c, err := p.Take(func() (c *conn, err error) {
		err = network.CatchPanic(func() (err error) { c, err = p.connect(ctx); return err })
		return c, err
	})
	if hasNumber(err, tooManyConnections...) {
		p.Slots.Refused()
	}
	if err != nil {
		return p.storeError(ctx, op, err)
	}
	if err = network.CatchPanic(func() error { return call(c) }); err == nil {
		p.accepted.Call(op)
	}
	// If the call's time ends just as its answer arrives, the driver closes the connection.
	if err == nil && c.IsValid() {
		p.Put(c)
		return nil
	}
	_ = c.Close()
	if err != nil {
		return p.storeError(ctx, op, c.cause.of(err))
	}
	return nil
}

// conn is one connection.
type conn struct {
	client
	raw   net.Conn // below TLS
	cause *cause
	// server identifies the server's process, by its name and start.
	server string
	// channel is where the session waits or has waited, "" if it never has.
	channel string
}

// client is the part of the driver's connection that is used.
type client interface {
	driver.Conn
	driver.QueryerContext
	driver.ExecerContext
	driver.Validator
}

// prepare configures a session. Each statement is its own transaction and reads committed
// data, values that are too long are errors, and a wait for a lock is short: repeated calls
// would use up the server's connections.
//
// It also finds out when the server started. Uptime is in whole seconds at the time of its
// statement, so it is only used if it is read within one second of the clock.
const prepare = `SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE;
	SET NAMES utf8mb4;
	SET autocommit = 1, sql_mode = 'STRICT_ALL_TABLES', innodb_lock_wait_timeout = 1, lock_wait_timeout = 1;
	SELECT UNIX_TIMESTAMP(), @@hostname, @@port; SHOW STATUS LIKE 'Uptime'; SELECT UNIX_TIMESTAMP()`

func (p *conns) connect(ctx context.Context) (*conn, error) {
	now, err := parseURL(p.url)
	if err != nil {
		return nil, err
	}
	p.latest.Store(now)
	c := &conn{cause: &cause{}}
	config := mysql.NewConfig()
	config.User, config.Passwd, config.Net, config.Addr, config.DBName = now.user, now.password, "tcp", now.addr, now.database
	config.TLS, config.Logger = now.tls, c.cause
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		var err error
		c.raw, err = p.dial(ctx, network, addr)
		return c.raw, err
	}
	config.InterpolateParams, config.MultiStatements = true, true // each saves a round trip
	config.ConnectionAttributes = "program_name:leaderrun"
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	raw, err := connector.Connect(ctx)
	if err != nil {
		return nil, c.cause.of(err)
	}
	c.client = raw.(client)
	if c.server, err = c.prepare(ctx); err != nil {
		_ = c.Close()
		return nil, c.cause.of(err)
	}
	p.accepted.Login() // not before: a session whose password has expired may only change it
	return c, nil
}

func (c *conn) prepare(ctx context.Context) (server string, err error) {
	for {
		sets, err := c.queries(ctx, prepare)
		if err != nil {
			return "", err
		}
		if len(sets) != 3 || len(sets[0]) != 1 || len(sets[1]) != 1 || len(sets[2]) != 1 {
			return "", errNoAnswer
		}
		before, uptime, after := sets[0][0], sets[1][0], sets[2][0]
		if len(before) != 3 || len(uptime) != 2 || len(after) != 1 {
			return "", errNoAnswer
		}
		now, err := strconv.ParseInt(before[0], 10, 64)
		up, errUp := strconv.ParseUint(uptime[1], 10, 64) // negative, and shown without a sign, if the clock is before the start
		if err != nil || errUp != nil {
			return "", errNoAnswer
		}
		if before[0] == after[0] {
			return digest(fmt.Sprintf("%d@%s:%s", now-int64(up), before[1], before[2])), nil
		}
	}
}

// rows is the result of one statement, as text; NULL is "".
type rows [][]string

// query runs one statement and returns its rows. A parameter is a string or an int64.
func (c *conn) query(ctx context.Context, sql string, args ...any) (rows, error) {
	sets, err := c.queries(ctx, sql, args...)
	if err == nil && len(sets) != 1 {
		err = errNoAnswer
	}
	if err != nil {
		return nil, err
	}
	return sets[0], nil
}

// exec runs one statement without a result, and returns how many rows it has changed.
func (c *conn) exec(ctx context.Context, sql string, args ...any) (changed int64, err error) {
	result, err := c.ExecContext(ctx, sql, named(args))
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func named(args []any) []driver.NamedValue {
	all := make([]driver.NamedValue, len(args))
	for i, arg := range args {
		all[i] = driver.NamedValue{Ordinal: i + 1, Value: arg}
	}
	return all
}

// queries runs statements, separated by semicolons, in one round trip, and returns the rows
// of those that have a result. A session that waits, or may be interrupted, must run single
// statements: if it is interrupted between two, the announced second result never comes.
func (c *conn) queries(ctx context.Context, sql string, args ...any) (sets []rows, err error) {
	found, err := c.QueryContext(ctx, sql, named(args))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	for {
		set := rows{}
		values := make([]driver.Value, len(found.Columns()))
		for {
			err := found.Next(values)
			if err == io.EOF { //nolint:errorlint // drivers return it unwrapped
				break
			}
			if err != nil {
				return nil, err
			}
			set = append(set, text(values))
		}
		if len(values) > 0 {
			sets = append(sets, set)
		}
		more, ok := found.(driver.RowsNextResultSet)
		if !ok || !more.HasNextResultSet() {
			return sets, nil
		}
		if err := more.NextResultSet(); err != nil {
			return nil, err
		}
	}
}

func text(values []driver.Value) []string {
	line := make([]string, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case nil:
		case []byte:
			line[i] = string(v)
		default:
			line[i] = fmt.Sprint(v)
		}
	}
	return line
}

// cause keeps the reason why a connection became invalid, which the driver only logs.
type cause struct {
	mu  sync.Mutex
	err error
}

// Print implements the driver's Logger.
func (c *cause) Print(v ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range v {
		if err, ok := v.(error); ok && c.err == nil {
			c.err = err
		}
	}
}

// of returns the cause of a call's error.
func (c *cause) of(err error) error {
	if !errors.Is(err, mysql.ErrInvalidConn) && !errors.Is(err, driver.ErrBadConn) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return io.EOF
	}
	return c.err
}
