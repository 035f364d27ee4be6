package postgres

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/keep"
)

const (
	// A server that has replayed a log, another server's or its own after a crash, does not say
	// since when it has kept all that it acknowledged.
	readClock = `SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, pg_backend_pid(), pg_is_in_recovery(),
	floor(extract(epoch FROM pg_postmaster_start_time()) * 1000)::bigint, pg_last_wal_replay_lsn() IS NOT NULL`
	readRow = readClock + `, l.version, l.leader_id, l.term, l.state, l.runs
	FROM (VALUES (1)) one LEFT JOIN leaderrun_leases l ON l.prefix = $1 AND l.service_name = $2`
	// The table may be out of sight: a second one would be another store.
	noRow = readClock + `, (SELECT min(n.nspname::text) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE c.relname = 'leaderrun_leases' AND NOT pg_table_is_visible(c.oid) AND has_table_privilege(c.oid, 'UPDATE')
	AND (current_schema() IS NULL OR n.nspname =
	ANY (regexp_split_to_array(replace(replace(current_setting('search_path'), '"', ''), '$user', current_user), ' *, *')))), NULL, NULL, NULL, NULL`

	// An unchanged column keeps its values that are stored outside of the row.
	updateRow = `WITH saved AS (
	UPDATE leaderrun_leases SET leader_id = $3, term = $4,
		last_heartbeat = coalesce(to_timestamp(nullif($5, '')::bigint / 1000.0), last_heartbeat),
		metadata = nullif($6, '')::jsonb, version = $7, state = $8::jsonb, runs = coalesce(nullif($9, '')::jsonb, runs)
	WHERE prefix = $1 AND service_name = $2 AND version = $11 RETURNING version, state
) ` + wake

	// The update that never is needs the right to update, as each renewal does.
	insertRow = `WITH saved AS (
	INSERT INTO leaderrun_leases (prefix, service_name, leader_id, term, last_heartbeat, metadata, version, state, runs)
	VALUES ($1, $2, $3, $4, to_timestamp(nullif($5, '')::bigint / 1000.0), nullif($6, '')::jsonb, $7, $8::jsonb, nullif($9, '')::jsonb)
	ON CONFLICT (prefix, service_name) DO UPDATE SET version = 0 WHERE false RETURNING version, state
) ` + wake

	// wake notifies the listeners at the end of the transaction, if the row is as it was
	// written: a trigger may keep the old one.
	wake = `SELECT (SELECT count(pg_notify(channel, '')) FROM unnest(string_to_array($10, ' ')) channel) FROM saved WHERE version = $7::bigint AND state = $8::jsonb`

	// Rows that this user may remove, idle as in rules.Idle. A row's version is the time of its last
	// change, or later. One that was not released stays: if the clock was set forward by months, its
	// holder may live although the lease seems to be long over.
	readIdle = `SELECT service_name, version, leader_id, term, state, runs FROM leaderrun_leases
	WHERE prefix = $1 AND leader_id = '' AND jsonb_typeof(state -> 'keep_ms') = 'number' AND version + (state -> 'keep_ms')::numeric < $2::bigint
		AND has_table_privilege('leaderrun_leases', 'DELETE') LIMIT 10`
	deleteRow = `DELETE FROM leaderrun_leases WHERE prefix = $1 AND service_name = $2 AND version = $3`

	// Two sessions that create the table at once would fail, even with IF NOT EXISTS.
	oneCreator = `SELECT pg_advisory_xact_lock(hashtext('leaderrun_leases'))`
)

//go:embed table.sql
var createTable string

// storeRuns keeps runs out of the row, so that a renewal need not write them.
const storeRuns = `ALTER TABLE leaderrun_leases ALTER COLUMN runs SET STORAGE EXTERNAL`

// keeper is a [keep.Keeper] with one connection.
type keeper struct {
	*Store
	*conn
}

var _ keep.Pruner = keeper{}

// Read implements [keep.Keeper]. It reads the clock no earlier than the row.
func (k keeper) Read(ctx context.Context, key string) (r keep.Row, err error) {
	r.State = rules.New(key)
	found, err := k.run(ctx, statement{readRow, []string{k.prefix, key}})
	missing := hasState(err, undefinedTable)
	if missing {
		found, err = k.run(ctx, statement{sql: noRow})
	}
	if _, ok := errors.AsType[*pgproto3.ExceededMaxBodyLenErr](err); ok {
		return r, &keep.Untrusted{Place: keep.TableRow(k.prefix, key), Err: errors.New("it is too large")}
	}
	const columns, own = 10, 5 // the rest is the row's
	switch {
	case err != nil:
		return r, err
	case len(found) > 1:
		return r, keep.ErrShape
	case len(found) == 0 || len(found[0]) != columns:
		return r, errNoAnswer
	}
	answer := found[0]
	wall, errWall := strconv.ParseInt(string(answer[0]), 10, 64)
	started, errStarted := strconv.ParseInt(string(answer[3]), 10, 64)
	if errWall != nil || errStarted != nil {
		return r, errNoAnswer
	}
	r.Now = k.At(wall, string(answer[3]))
	if string(answer[4]) == "f" {
		r.Now.Serving = r.Now.Up - started
	}
	k.direct = string(answer[1]) == strconv.FormatUint(uint64(k.PID()), 10)
	k.pooled.Store(!k.direct)
	if string(answer[2]) != "f" {
		return r, errReplica
	}
	switch {
	case answer[own] == nil:
		return r, nil
	case missing:
		return r, &hiddenTable{string(answer[own])}
	}
	return k.parsed(r, answer[own:])
}

// parsed completes a row.
func (k keeper) parsed(r keep.Row, columns [][]byte) (keep.Row, error) {
	version, err := strconv.ParseInt(string(columns[0]), 10, 64)
	st := r.State
	if err != nil || version <= 0 {
		err = fmt.Errorf("version %q", columns[0])
	} else if st, err = k.Parse(r.Key, columns[3]); err == nil {
		err = agree(st, string(columns[1]), string(columns[2]))
	}
	if err == nil && columns[4] != nil && json.Unmarshal(columns[4], &st.Runs) != nil {
		err = errors.New("its runs are damaged")
	}
	if err != nil {
		return r, &keep.Untrusted{Place: keep.TableRow(k.prefix, r.Key), Err: err}
	}
	r.State, r.Version, r.Kept = st, version, slices.Clone(st.Runs)
	return r, nil
}

// agree checks that the columns for people say what the state says.
func agree(st rules.State, is, term string) error {
	if leader := leader(st); is != leader {
		return fmt.Errorf("its leader_id is %q, its state says %q", is, leader)
	}
	if token := strconv.FormatInt(st.Token, 10); term != token {
		return fmt.Errorf("its term is %s, its state says %s", term, token)
	}
	return nil
}

// leader returns the holder of the newest grant, "" once it has released.
func leader(st rules.State) string {
	if g := st.Grant; g != nil && !g.Cooldown {
		return string(g.Holder)
	}
	return ""
}

// Swap implements [keep.Keeper]. The first row creates the table.
func (k keeper) Swap(ctx context.Context, r keep.Row, e keep.Effect) (now keep.Row, saved bool, err error) {
	write, err := k.write(r, e)
	if err != nil {
		return r, false, err
	}
	changed, err := k.run(ctx, write)
	if hasState(err, undefinedTable) {
		if _, err := k.Read(ctx, r.Key); err != nil {
			return r, false, err
		}
		if _, err := k.run(ctx, statement{sql: oneCreator}, statement{sql: createTable}, statement{sql: storeRuns}); err != nil {
			return r, false, &keep.NoTable{Err: err}
		}
		changed, err = k.run(ctx, write)
	}
	switch {
	case hasState(err, serializationFailure): // only if the default isolation is not the usual one
		return r, false, &keep.Refused{Err: err}
	case err != nil:
		return r, false, err
	case len(changed) != 1:
		now, err = k.Read(ctx, r.Key)
		return now, false, err
	}
	return r, true, nil
}

// write returns the statement that replaces a row.
func (k keeper) write(r keep.Row, e keep.Effect) (statement, error) {
	state, runs, err := columns(r)
	heartbeat, metadata := "", ""
	if e.Renewed {
		heartbeat = strconv.FormatInt(r.Now.Wall, 10)
	}
	if g := r.Grant; g != nil && !g.Cooldown {
		metadata = metadataJSON(g.Meta)
	}
	var channels []string
	if e.Calls {
		channels = append(channels, k.channelOf(keep.Call, r.Key))
	}
	if e.Wakes {
		channels = append(channels, k.channelOf(keep.Wake, r.Key))
	}
	before, _ := r.Version.(int64)
	// The version grows even if the row is deleted and made anew.
	version := max(before+1, r.Now.Wall)
	write := statement{insertRow, []string{
		k.prefix, r.Key, leader(r.State), strconv.FormatInt(r.Token, 10), heartbeat, metadata,
		strconv.FormatInt(version, 10), state, runs, strings.Join(channels, " "),
	}}
	if before > 0 {
		write = statement{updateRow, append(write.args, strconv.FormatInt(before, 10))}
	}
	return write, err
}

// columns returns the state without its runs, and the runs, or "" if they have not changed.
func columns(r keep.Row) (state, runs string, err error) {
	bare := r.State
	bare.Runs = nil
	text, err := json.Marshal(bare)
	if err != nil {
		return "", "", err
	}
	if were, _ := r.Kept.([]lease.Run); slices.Equal(r.Runs, were) {
		return string(text), "", nil
	}
	runsText, err := json.Marshal(r.Runs)
	return string(text), string(runsText), err
}

// Names implements [keep.Keeper].
func (k keeper) Names(ctx context.Context) (names []string, err error) {
	found, err := k.run(ctx, statement{`SELECT service_name FROM leaderrun_leases WHERE prefix = $1`, []string{k.prefix}})
	if hasState(err, undefinedTable) {
		_, err = k.Read(ctx, "")
		return nil, err
	}
	for _, columns := range found {
		if len(columns) != 1 {
			return nil, errNoAnswer
		}
		names = append(names, string(columns[0]))
	}
	return names, err
}

// Oldest implements [keep.Pruner].
func (k keeper) Oldest(ctx context.Context, now rules.Instant) (rows []keep.Row, err error) {
	found, err := k.run(ctx, statement{readIdle, []string{k.prefix, strconv.FormatInt(now.Wall, 10)}})
	for _, columns := range found {
		if r, err := k.parsed(keep.Row{State: rules.New(string(columns[0]))}, columns[1:]); err == nil {
			rows = append(rows, r)
		}
	}
	return rows, err
}

// Remove implements [keep.Pruner].
func (k keeper) Remove(ctx context.Context, r keep.Row) error {
	_, err := k.run(ctx, statement{deleteRow, []string{k.prefix, r.Key, strconv.FormatInt(r.Version.(int64), 10)}})
	return err
}

// metadataJSON returns a text that is JSON as it is, and any other text as a JSON string.
// Postgres does not accept all JSON.
func metadataJSON(meta string) string {
	var v any
	if meta == "" {
		return ""
	}
	text, err := []byte(nil), json.Unmarshal([]byte(meta), &v)
	if err == nil {
		text, err = json.Marshal(v)
	}
	if err != nil || bytes.Contains(text, []byte(`\u0000`)) {
		v = meta
		text, _ = json.Marshal(v) // of a string it never fails
	}
	return string(text)
}

// hasState reports whether the server answered with this SQLSTATE.
func hasState(err error, state string) bool {
	var answer *pgconn.PgError
	return errors.As(err, &answer) && answer.Code == state
}
