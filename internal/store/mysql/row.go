package mysql

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
	"github.com/leaderrun/leaderrun/internal/store/cas"
)

const (
	// boot is the same for all grants: they count by the server's clock, which goes on
	// during a restart.
	boot = "mysql"
	// settle is how long, in ms, a key waits for a holder that may be alive although the
	// server does not know it. It is longer than a holder on the same network needs to hear
	// the call and to renew, and short enough for a run that waits in vain.
	settle = 300
	// maxState is larger than any state that leaderrun writes: those have 256 KiB at most.
	maxState = 1 << 20
)

// The time is that at which the statement starts, not a transaction.
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

// look reads the row of key.
func (s *Store) look(ctx context.Context, c *conn, key string) (cas.Record, error) {
	r := cas.Record{State: leasestate.New(key)}
	found, err := c.query(ctx, readRow, int64(maxState+1), s.Prefix, key)
	if err != nil {
		return r, err
	}
	if len(found) > 1 {
		return r, cas.ErrShape
	}
	if len(found) == 0 || len(found[0]) != 4 {
		return r, errNoAnswer
	}
	answer := found[0]
	wall, err := strconv.ParseInt(answer[0], 10, 64)
	if err != nil {
		return r, errNoAnswer
	}
	r.Now = leasestate.Instant{Boot: boot, Up: wall, Wall: wall, Settle: s.settle, Server: c.server}
	switch {
	case answer[1] != "0" && answer[1] != "OFF":
		return r, errReplica
	case answer[2] == "": // NULL
		return r, nil
	}
	if r.State, r.Version, err = parse(key, answer[2], answer[3]); err != nil {
		return r, s.Untrusted(key, err)
	}
	return r, nil
}

// parse reads a row. A damaged one is an error: see [cas.Keeper].
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
func (s *Store) save(ctx context.Context, c *conn, r cas.Record, e cas.Effect) (saved bool, refused, err error) {
	state, err := json.Marshal(r.State)
	if err != nil {
		return false, nil, err
	}
	// The version grows even if the row is deleted and made anew.
	write, args := insertRow, []any{max(r.Version+1, r.Now.Wall), string(state), s.Prefix, r.State.Key}
	if r.Version > 0 {
		write, args = updateRow, append(args, r.Version)
	}
	changed, err := c.exec(ctx, write, args...)
	switch {
	case hasNumber(err, duplicateRow):
		return false, nil, nil
	case hasNumber(err, contention...): // the server has undone the change
		return false, err, nil
	case err != nil || changed != 1:
		return false, nil, err
	}
	var channels []string
	if e.Calls {
		channels = append(channels, s.channel(callKind, r.State.Key))
	}
	if e.Wakes {
		channels = append(channels, s.channel(wakeKind, r.State.Key))
	}
	c.wake(ctx, channels)
	if r.Version == 0 {
		s.prune(ctx, c, r.Now)
	}
	return true, nil, nil
}

// names returns the keys of all rows.
func (s *Store) names(ctx context.Context, c *conn) (names []string, err error) {
	found, err := c.query(ctx, `SELECT service_name FROM leaderrun_leases WHERE prefix = ?`, s.Prefix)
	for _, columns := range found {
		names = append(names, columns[0])
	}
	return names, err
}

// prune removes rows of keys that have not been used for long; it checks the ten oldest. It
// is called after a row is added, so the table does not grow for ever, and renewals take no
// longer. Errors are ignored: the next call tries again.
func (s *Store) prune(ctx context.Context, c *conn, now leasestate.Instant) {
	found, err := c.query(ctx, readIdle, int64(maxState+1), s.Prefix, now.Wall-leasestate.MinKeep.Milliseconds())
	if err != nil {
		return
	}
	for _, r := range found {
		state, version, err := parse(r[0], r[1], r[2])
		if err == nil && state.Idle(version, now) {
			if _, err := c.exec(ctx, deleteRow, s.Prefix, r[0], version); err != nil {
				return
			}
		}
	}
}
