package mysql

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
	"github.com/leaderrun/leaderrun/internal/store/cas"
)

// row is what the table says of a key, and when.
type row struct {
	state   leasestate.State
	version int64 // 0: there is no row
	now     leasestate.Instant
}

const (
	// Of the clocks only the server's counts. It goes on over a restart, so there is
	// only one boot.
	boot = "mysql"
	// settle is how long, in ms, a key waits for a holder that may be alive without the
	// server knowing: longer than one on the same network needs to be called and to
	// renew, short enough for a run that need not have waited.
	settle = 300
	// maxState is above every state that leaderrun writes, which has 256 KiB at the most.
	maxState = 1 << 20
)

// The clock is that of the statement's start, and not of a transaction's.
const (
	readClock = `SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000, @@global.read_only`
	readRow   = readClock + `, l.version, LEFT(l.state, ?)
	FROM (SELECT 1) one LEFT JOIN leaderrun_leases l ON l.prefix = ? AND l.service_name = ?`

	updateRow = `UPDATE leaderrun_leases SET version = ?, state = ? WHERE prefix = ? AND service_name = ? AND version = ?`
	insertRow = `INSERT INTO leaderrun_leases (version, state, prefix, service_name) VALUES (?, ?, ?, ?)`
	readIdle  = `SELECT service_name, version, LEFT(state, ?) FROM leaderrun_leases WHERE prefix = ? AND version < ? ORDER BY version LIMIT 10`
	deleteRow = `DELETE FROM leaderrun_leases WHERE prefix = ? AND service_name = ? AND version = ?`
)

//go:embed table.sql
var createTable string

// read looks at the row of key, and makes the table where it is missing.
func (s *Store) read(ctx context.Context, c *conn, key string) (row, error) {
	r, err := s.look(ctx, c, key)
	if is(err, noSuchTable) {
		if _, err := c.exec(ctx, createTable); err != nil {
			return r, &noTable{err}
		}
		return s.look(ctx, c, key)
	}
	return r, err
}

// look reads the row of key.
func (s *Store) look(ctx context.Context, c *conn, key string) (row, error) {
	r := row{state: leasestate.New(key)}
	found, err := c.query(ctx, readRow, int64(maxState+1), s.prefix, key)
	if err != nil {
		return r, err
	}
	if len(found) > 1 {
		return r, errShape
	}
	if len(found) == 0 || len(found[0]) != 4 {
		return r, errNoAnswer
	}
	answer := found[0]
	wall, err := strconv.ParseInt(answer[0], 10, 64)
	if err != nil {
		return r, errNoAnswer
	}
	r.now = leasestate.Instant{Boot: boot, Up: wall, Wall: wall, Settle: s.settle, Server: c.server}
	switch {
	case answer[1] != "0" && answer[1] != "OFF":
		return r, errReplica
	case answer[2] == "": // NULL
		return r, nil
	}
	if r.state, r.version, err = parse(key, answer[2], answer[3]); err != nil {
		return r, s.untrusted(key, err)
	}
	return r, nil
}

// parse never guesses what a damaged row means: a guess could grant twice.
func parse(key, version, text string) (state leasestate.State, n int64, err error) {
	n, err = strconv.ParseInt(version, 10, 64)
	if err != nil || n <= 0 {
		return state, 0, fmt.Errorf("version %q", version)
	}
	if len(text) > maxState {
		return state, 0, errors.New("it is too large")
	}
	if json.Unmarshal([]byte(text), &state) != nil {
		return state, 0, errors.New("its state is damaged") // the error itself speaks of Go's types
	}
	if err := state.Check(key); err != nil {
		return state, 0, err
	}
	if g := state.Grant; g != nil && g.Boot != boot {
		return state, 0, errors.New("its grant is not one of this store")
	}
	return state, n, nil
}

// save replaces the row that was read, unless somebody has changed it since.
func (s *Store) save(ctx context.Context, c *conn, key string, r row) (saved bool, err error) {
	state, err := json.Marshal(r.state)
	if err != nil {
		return false, err
	}
	// The version grows over a row that was deleted and made anew, too.
	write, args := insertRow, []any{max(r.version+1, r.now.Wall), string(state), s.prefix, key}
	if r.version > 0 {
		write, args = updateRow, append(args, r.version)
	}
	changed, err := c.exec(ctx, write, args...)
	if is(err, duplicateRow) {
		return false, nil
	}
	return changed == 1, err
}

// refusals is how often a row that nobody has changed may refuse a change.
const refusals = 10

// change applies a change to the key's row, again and again while others change the row
// in between: each time that is somebody's success.
func (s *Store) change(ctx context.Context, ch cas.Change) (l lease.Lease, answer error) {
	err := s.conns.do(ctx, ch.Op, func(c *conn) error {
		unchanged, last := 0, int64(-1)
		for {
			r, err := s.read(ctx, c, ch.Key)
			if is(err, interrupted) {
				continue
			}
			if err != nil {
				return err
			}
			before, err := json.Marshal(r.state)
			if err != nil {
				return err
			}
			l, answer = ch.Apply(&r.state, r.now)
			after, err := json.Marshal(r.state)
			if err != nil || bytes.Equal(before, after) {
				return err
			}
			saved, err := s.save(ctx, c, ch.Key, r)
			var channels []string
			if ch.Calls || r.state.Settling != nil && r.state.Settling.Since == r.now.Up { // it begins
				channels = append(channels, s.channel(callKind, ch.Key))
			}
			if ch.Wakes {
				channels = append(channels, s.channel(wakeKind, ch.Key))
			}
			refused := errNotSaved
			switch {
			case saved:
				c.wake(ctx, channels)
				if r.version == 0 {
					s.prune(ctx, c, r.now)
				}
				return nil
			case is(err, contention...): // and was undone
				refused = &contended{err}
			case err != nil:
				return err
			}
			if r.version != last {
				unchanged, last = 0, r.version
			}
			if unchanged++; unchanged == refusals {
				return refused
			}
		}
	})
	if err != nil {
		return lease.Lease{}, err
	}
	return l, answer
}

// prune removes rows of keys that are long out of use, of those that were changed
// longest ago. It is called after a row is added: the table does not grow for ever, and
// renewals take no longer. What fails is left for the next time.
func (s *Store) prune(ctx context.Context, c *conn, now leasestate.Instant) {
	found, err := c.query(ctx, readIdle, int64(maxState+1), s.prefix, now.Wall-leasestate.MinKeep.Milliseconds())
	if err != nil {
		return
	}
	for _, r := range found {
		state, version, err := parse(r[0], r[1], r[2])
		if err == nil && state.Idle(version, now) {
			if _, err := c.exec(ctx, deleteRow, s.prefix, r[0], version); err != nil {
				return
			}
		}
	}
}
