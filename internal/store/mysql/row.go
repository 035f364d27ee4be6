package mysql

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/keep"
)

// maxState is larger than any state that leaderrun writes: those have 256 KiB at most.
const maxState = 1 << 20

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

// keeper is a [keep.Keeper] with one connection.
type keeper struct {
	*Store
	*conn
}

var _ keep.Pruner = keeper{}

// Read implements [keep.Keeper].
func (k keeper) Read(ctx context.Context, key string) (r keep.Row, err error) {
	r.State = rules.New(key)
	found, err := k.query(ctx, readRow, int64(maxState+1), k.prefix, key)
	for hasNumber(err, interrupted) { // a wake-up that came too late for a wait
		found, err = k.query(ctx, readRow, int64(maxState+1), k.prefix, key)
	}
	missing := hasNumber(err, noSuchTable)
	if missing {
		found, err = k.query(ctx, readClock+", NULL, NULL")
	}
	switch {
	case err != nil:
		return r, err
	case len(found) > 1:
		return r, keep.ErrShape
	case len(found) == 0 || len(found[0]) != 4:
		return r, errNoAnswer
	}
	answer := found[0]
	wall, err := strconv.ParseInt(answer[0], 10, 64)
	if err != nil {
		return r, errNoAnswer
	}
	r.Now, r.Kept = k.At(wall, k.server), missing
	switch {
	case answer[1] != "0" && answer[1] != "OFF":
		return r, errReplica
	case answer[2] == "": // NULL
		return r, nil
	}
	return k.parsed(r, answer[2], answer[3])
}

// parsed completes a row.
func (k keeper) parsed(r keep.Row, version, text string) (keep.Row, error) {
	n, err := strconv.ParseInt(version, 10, 64)
	st := r.State
	switch {
	case err != nil || n <= 0:
		err = fmt.Errorf("version %q", version)
	case len(text) > maxState:
		err = errors.New("it is too large")
	default:
		st, err = k.Parse(r.Key, []byte(text))
	}
	if err != nil {
		return r, &keep.Untrusted{Place: keep.TableRow(k.prefix, r.Key), Err: err}
	}
	r.State, r.Version = st, n
	return r, nil
}

// Swap implements [keep.Keeper]. The first row creates the table.
func (k keeper) Swap(ctx context.Context, r keep.Row, e keep.Effect) (now keep.Row, saved bool, err error) {
	state, err := json.Marshal(r.State)
	if err != nil {
		return r, false, err
	}
	before, _ := r.Version.(int64)
	// The version grows even if the row is deleted and made anew.
	write, args := insertRow, []any{max(before+1, r.Now.Wall), string(state), k.prefix, r.Key}
	if before > 0 {
		write, args = updateRow, append(args, before)
	}
	if missing, _ := r.Kept.(bool); missing { // without the right to write, the server does not say so
		if _, err := k.exec(ctx, createTable); err != nil {
			return r, false, &keep.NoTable{Err: err}
		}
	}
	changed, err := k.exec(ctx, write, args...)
	switch {
	case hasNumber(err, contention...): // the server has undone the change
		return r, false, &keep.Refused{Err: err}
	case err != nil && !hasNumber(err, duplicateRow):
		return r, false, err
	case changed != 1:
		now, err = k.Read(ctx, r.Key)
		return now, false, err
	}
	var channels []string
	if e.Calls {
		channels = append(channels, k.channelOf(keep.Call, r.Key))
	}
	if e.Wakes {
		channels = append(channels, k.channelOf(keep.Wake, r.Key))
	}
	k.wake(ctx, channels)
	return r, true, nil
}

// Names implements [keep.Keeper].
func (k keeper) Names(ctx context.Context) (names []string, err error) {
	found, err := k.query(ctx, `SELECT service_name FROM leaderrun_leases WHERE prefix = ?`, k.prefix)
	if hasNumber(err, noSuchTable) {
		return nil, nil
	}
	for _, columns := range found {
		names = append(names, columns[0])
	}
	return names, err
}

// Oldest implements [keep.Pruner]. A row's version is the time of its last change, or later.
func (k keeper) Oldest(ctx context.Context, now rules.Instant) (rows []keep.Row, err error) {
	found, err := k.query(ctx, readIdle, int64(maxState+1), k.prefix, now.Wall-rules.MinKeep.Milliseconds())
	for _, columns := range found {
		if r, err := k.parsed(keep.Row{State: rules.New(columns[0])}, columns[1], columns[2]); err == nil {
			rows = append(rows, r)
		}
	}
	return rows, err
}

// Remove implements [keep.Pruner].
func (k keeper) Remove(ctx context.Context, r keep.Row) error {
	_, err := k.exec(ctx, deleteRow, k.prefix, r.Key, r.Version)
	return err
}
