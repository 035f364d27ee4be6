package postgres

import (
	"bytes"
	"cmp"
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
	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
	"github.com/leaderrun/leaderrun/internal/store/cas"
)

// boot is the same for all grants: they count by the server's clock, which goes on during a
// restart.
const boot = "postgres"

// settle is how long, in ms, a key waits for a holder that may be alive although the server
// does not know it. It is longer than a holder on the same network needs to hear the call
// and to renew, and short enough for a run that waits in vain.
const settle = 300

const (
	// If the table has the former layout, runs is the NULL of "former". A server that has
	// replayed a log, another server's or its own after a crash, does not say since when it
	// has kept all that it acknowledged.
	readRow = `SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, pg_backend_pid(), pg_is_in_recovery(),
	floor(extract(epoch FROM pg_postmaster_start_time()) * 1000)::bigint, pg_last_wal_replay_lsn() IS NOT NULL,
	l.version, l.leader_id, l.term, l.state, l.runs
	FROM (SELECT NULL::jsonb AS runs) former LEFT JOIN LATERAL (
		SELECT version, leader_id, term, state, runs FROM leaderrun_leases WHERE prefix = $1 AND service_name = $2
	) l ON true`

	// An unchanged column keeps its values that are stored outside of the row.
	updateRow = `WITH saved AS (
	UPDATE leaderrun_leases SET leader_id = $3, term = $4,
		last_heartbeat = coalesce(to_timestamp(nullif($5, '')::bigint / 1000.0), last_heartbeat),
		metadata = nullif($6, '')::jsonb, version = $7, state = $8::jsonb, runs = coalesce(nullif($9, '')::jsonb, runs)
	WHERE prefix = $1 AND service_name = $2 AND version = $11 RETURNING version, state
) ` + wake

	insertRow = `WITH saved AS (
	INSERT INTO leaderrun_leases (prefix, service_name, leader_id, term, last_heartbeat, metadata, version, state, runs)
	VALUES ($1, $2, $3, $4, to_timestamp(nullif($5, '')::bigint / 1000.0), nullif($6, '')::jsonb, $7, $8::jsonb, nullif($9, '')::jsonb)
	ON CONFLICT (prefix, service_name) DO NOTHING RETURNING version, state
) ` + wake

	// wake notifies the listeners at the end of the transaction, if the row is as it was
	// written: a trigger may keep the old one.
	wake = `SELECT (SELECT count(pg_notify(channel, '')) FROM unnest(string_to_array($10, ' ')) channel),
	has_table_privilege('leaderrun_leases', 'DELETE') FROM saved WHERE version = $7::bigint AND state = $8::jsonb`

	// Two sessions that create the table at once would fail, even with IF NOT EXISTS.
	oneCreator = `SELECT pg_advisory_xact_lock(hashtext('leaderrun_leases'))`
)

var (
	//go:embed table.sql
	createTable string
	//go:embed runs.sql
	addRuns string
)

// look reads the row of key, and the clock no earlier than the row.
func (s *Store) look(ctx context.Context, c *conn, key string) (cas.Record, error) {
	r := cas.Record{State: leasestate.New(key)}
	found, err := c.run(ctx, statement{readRow, []string{s.Prefix, key}})
	if _, ok := errors.AsType[*pgproto3.ExceededMaxBodyLenErr](err); ok {
		return r, s.Untrusted(key, errors.New("it is too large"))
	}
	if err != nil {
		return r, err
	}
	const columns = 10
	if len(found) > 1 {
		return r, cas.ErrShape
	}
	if len(found) == 0 || len(found[0]) != columns {
		return r, errNoAnswer
	}
	answer := found[0]
	r.Now.Boot = boot
	if r.Now.Up, err = strconv.ParseInt(string(answer[0]), 10, 64); err != nil {
		return r, errNoAnswer
	}
	started, err := strconv.ParseInt(string(answer[3]), 10, 64)
	if err != nil {
		return r, errNoAnswer
	}
	r.Now.Wall, r.Now.Settle, r.Now.Server = r.Now.Up, settle, string(answer[3])
	if string(answer[4]) == "f" {
		r.Now.Serving = r.Now.Up - started
	}
	c.direct = string(answer[1]) == strconv.FormatUint(uint64(c.PID()), 10)
	s.pooled.Store(!c.direct)
	if string(answer[2]) != "f" {
		return r, errReplica
	}
	if answer[5] == nil {
		return r, nil
	}
	if err := parse(&r, key, answer[5:]); err != nil {
		return r, s.Untrusted(key, err)
	}
	return r, nil
}

// parse reads a row. A damaged one is an error: see [cas.Keeper].
func parse(r *cas.Record, key string, columns [][]byte) error {
	version, err := strconv.ParseInt(string(columns[0]), 10, 64)
	if err != nil || version <= 0 {
		return fmt.Errorf("version %q", columns[0])
	}
	state := leasestate.State{}
	if json.Unmarshal(columns[3], &state) != nil {
		return errors.New("its state is damaged") // the error itself speaks of Go's types
	}
	if err := state.Check(key); err != nil {
		return err
	}
	if g := state.Grant; g != nil && g.Boot != boot {
		return errors.New("its grant is not one of this store")
	}
	if leader := leader(state); string(columns[1]) != leader {
		return fmt.Errorf("its leader_id is %q, its state says %q", columns[1], leader)
	}
	if term := strconv.FormatInt(state.Token, 10); string(columns[2]) != term {
		return fmt.Errorf("its term is %s, its state says %s", columns[2], term)
	}
	var inColumn []lease.Run
	if columns[4] != nil && json.Unmarshal(columns[4], &inColumn) != nil {
		return errors.New("its runs are damaged")
	}
	state.Runs = mergeRuns(state.Runs, inColumn)
	r.State, r.Version, r.Kept = state, version, inColumn
	return nil
}

// mergeRuns returns the last runs of two lists, newest token first: an older leaderrun keeps
// its runs in the state. A holder's report replaces the record that its run vanished.
func mergeRuns(a, b []lease.Run) []lease.Run {
	all := append(slices.Clone(a), b...)
	slices.SortStableFunc(all, func(x, y lease.Run) int {
		if x.Token == y.Token && x.Vanished != y.Vanished {
			return map[bool]int{true: 1, false: -1}[x.Vanished]
		}
		return cmp.Compare(y.Token, x.Token)
	})
	all = slices.CompactFunc(all, func(x, y lease.Run) bool { return x.Token == y.Token })
	return all[:min(len(all), lease.MaxRuns)]
}

// leader returns the holder of the newest grant, "" once it has released.
func leader(st leasestate.State) string {
	if g := st.Grant; g != nil && !g.Cooldown {
		return string(g.Holder)
	}
	return ""
}

// save replaces the row that was read, unless somebody has changed it since.
func (s *Store) save(ctx context.Context, c *conn, r cas.Record, e cas.Effect) (saved bool, refused, err error) {
	state, runs, err := columns(r)
	if err != nil {
		return false, nil, err
	}
	heartbeat, metadata := "", ""
	if e.Renewed {
		heartbeat = strconv.FormatInt(r.Now.Wall, 10)
	}
	if g := r.State.Grant; g != nil && !g.Cooldown {
		metadata = metadataJSON(g.Meta)
	}
	var channels []string
	if e.Calls {
		channels = append(channels, s.channel(callKind, r.State.Key))
	}
	if e.Wakes {
		channels = append(channels, s.channel(wakeKind, r.State.Key))
	}
	// The version grows even if the row is deleted and made anew.
	version := max(r.Version+1, r.Now.Wall)
	write := statement{insertRow, []string{
		s.Prefix, r.State.Key, leader(r.State), strconv.FormatInt(r.State.Token, 10), heartbeat, metadata,
		strconv.FormatInt(version, 10), state, runs, strings.Join(channels, " "),
	}}
	if r.Version > 0 {
		write = statement{updateRow, append(write.args, strconv.FormatInt(r.Version, 10))}
	}
	changed, err := c.run(ctx, write)
	switch {
	case hasState(err, undefinedColumn): // the former layout; if it is another one, the next save says so
		if _, err := c.run(ctx, statement{sql: oneCreator}, statement{sql: addRuns}); err != nil {
			return false, nil, &noRuns{err}
		}
		return false, err, nil
	case hasState(err, serializationFailure): // only if the default isolation is not the usual one
		return false, err, nil
	case err != nil || len(changed) != 1:
		return false, nil, err
	}
	if r.Version == 0 && len(changed[0]) == 2 && string(changed[0][1]) == "t" { // this user may delete rows
		s.prune(ctx, c, r.Now)
	}
	return true, nil, nil
}

// columns returns the state without its runs, and the runs, or "" if they have not changed.
func columns(r cas.Record) (state, runs string, err error) {
	bare := r.State
	bare.Runs = nil
	text, err := json.Marshal(bare)
	if err != nil {
		return "", "", err
	}
	if inColumn, _ := r.Kept.([]lease.Run); slices.Equal(r.State.Runs, inColumn) {
		return string(text), "", nil
	}
	runsText, err := json.Marshal(r.State.Runs)
	return string(text), string(runsText), err
}

// create creates the table in the present layout.
func create(ctx context.Context, c *conn) error {
	_, err := c.run(ctx, statement{sql: oneCreator}, statement{sql: createTable}, statement{sql: addRuns})
	return err
}

// names returns the keys of all rows.
func (s *Store) names(ctx context.Context, c *conn) (names []string, err error) {
	found, err := c.run(ctx, statement{`SELECT service_name FROM leaderrun_leases WHERE prefix = $1`, []string{s.Prefix}})
	for _, columns := range found {
		if len(columns) != 1 {
			return nil, errNoAnswer
		}
		names = append(names, string(columns[0]))
	}
	return names, err
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

// deleteIdle removes rows that are idle as in leasestate.Idle. A row's version is the time of
// its last change, or later. Rows of an older leaderrun do not say how long they must be
// kept, and stay. So does a row that was not released: if the clock was set forward by
// months, its holder may live although the lease seems to be long over.
const deleteIdle = `DELETE FROM leaderrun_leases WHERE prefix = $1 AND service_name IN (
	SELECT service_name FROM leaderrun_leases WHERE prefix = $1 AND leader_id = '' AND jsonb_typeof(state -> 'keep_ms') = 'number'
		AND version + (state -> 'keep_ms')::numeric < $2::bigint LIMIT 10 FOR UPDATE SKIP LOCKED)`

// prune removes rows of keys that have not been used for long. It is called after a row is
// added, so the table does not grow for ever, and renewals take no longer. Errors are
// ignored: the next call tries again.
func (s *Store) prune(ctx context.Context, c *conn, now leasestate.Instant) {
	_, _ = c.run(ctx, statement{deleteIdle, []string{s.Prefix, strconv.FormatInt(now.Wall, 10)}})
}

// hasState reports whether the server answered with this SQLSTATE.
func hasState(err error, state string) bool {
	var answer *pgconn.PgError
	return errors.As(err, &answer) && answer.Code == state
}
