package postgres

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/rules"
)

// row is what the table says of a key, and when.
type row struct {
	state   rules.State
	version int64 // 0: there is no row
	now     rules.Instant
}

// Of the clocks only the server's counts. It goes on over a restart, so there is
// only one boot.
const boot = "postgres"

const (
	readRow = `SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, pg_backend_pid(), pg_is_in_recovery(),
	l.version, l.leader_id, l.term, l.state
	FROM (VALUES (1)) one LEFT JOIN leaderrun_leases l ON l.prefix = $1 AND l.service_name = $2`

	updateRow = `WITH saved AS (
	UPDATE leaderrun_leases SET leader_id = $3, term = $4,
		last_heartbeat = coalesce(to_timestamp(nullif($5, '')::bigint / 1000.0), last_heartbeat),
		metadata = nullif($6, '')::jsonb, version = $7, state = $8::jsonb
	WHERE prefix = $1 AND service_name = $2 AND version = $10 RETURNING 1
) ` + wake

	insertRow = `WITH saved AS (
	INSERT INTO leaderrun_leases (prefix, service_name, leader_id, term, last_heartbeat, metadata, version, state)
	VALUES ($1, $2, $3, $4, to_timestamp(nullif($5, '')::bigint / 1000.0), nullif($6, '')::jsonb, $7, $8::jsonb)
	ON CONFLICT (prefix, service_name) DO NOTHING RETURNING 1
) ` + wake

	// wake tells those who listen once the transaction is over, if it changed the
	// row.
	wake = `SELECT (SELECT count(pg_notify(channel, '')) FROM unnest(string_to_array($9, ' ')) channel) FROM saved`

	// Two at once would fail, IF NOT EXISTS or not.
	oneCreator = `SELECT pg_advisory_xact_lock(hashtext('leaderrun_leases'))`
)

//go:embed table.sql
var createTable string

// read looks at the row of key, and makes the table where it is missing.
func (s *Store) read(ctx context.Context, c *conn, key string) (row, error) {
	r, err := s.look(ctx, c, key)
	if hasState(err, undefinedTable) {
		if _, err := c.run(ctx, statement{sql: oneCreator}, statement{sql: createTable}); err != nil {
			return r, &noTable{err}
		}
		return s.look(ctx, c, key)
	}
	return r, err
}

// look reads the row of key. The clock is read no earlier than the row.
func (s *Store) look(ctx context.Context, c *conn, key string) (row, error) {
	r := row{state: rules.New(key)}
	found, err := c.run(ctx, statement{readRow, []string{s.prefix, key}})
	var tooLarge *pgproto3.ExceededMaxBodyLenErr
	if errors.As(err, &tooLarge) {
		return r, s.untrusted(key, errors.New("it is too large"))
	}
	if err != nil {
		return r, err
	}
	const columns = 7
	if len(found) > 1 {
		return r, errShape
	}
	if len(found) == 0 || len(found[0]) != columns {
		return r, errNoAnswer
	}
	answer := found[0]
	r.now.Boot = boot
	if r.now.Up, err = strconv.ParseInt(string(answer[0]), 10, 64); err != nil {
		return r, errNoAnswer
	}
	r.now.Wall = r.now.Up
	c.direct = string(answer[1]) == strconv.FormatUint(uint64(c.PID()), 10)
	if string(answer[2]) != "f" {
		return r, errReplica
	}
	if answer[3] == nil {
		return r, nil
	}
	if err := r.parse(key, answer[3:]); err != nil {
		return r, s.untrusted(key, err)
	}
	return r, nil
}

// parse never guesses: a guess could grant twice.
func (r *row) parse(key string, columns [][]byte) error {
	version, err := strconv.ParseInt(string(columns[0]), 10, 64)
	if err != nil || version <= 0 {
		return fmt.Errorf("version %q", columns[0])
	}
	state := rules.State{}
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
	r.state, r.version = state, version
	return nil
}

// leader is who leads, or led last and has neither released nor been followed.
func leader(st rules.State) string {
	if g := st.Grant; g != nil && !g.Cooldown {
		return string(g.Holder)
	}
	return ""
}

// save replaces the row that was read, unless somebody has changed it since.
func (s *Store) save(ctx context.Context, c *conn, key string, r row, after []byte, beat bool, channels string) (saved bool, err error) {
	heartbeat, metadata := "", ""
	if beat {
		heartbeat = strconv.FormatInt(r.now.Wall, 10)
	}
	if g := r.state.Grant; g != nil && !g.Cooldown {
		metadata = forPeople(g.Meta)
	}
	// The version grows over a row that was deleted and made anew, too.
	version := max(r.version+1, r.now.Wall)
	write := statement{insertRow, []string{
		s.prefix, key, leader(r.state), strconv.FormatInt(r.state.Token, 10), heartbeat, metadata,
		strconv.FormatInt(version, 10), string(after), channels,
	}}
	if r.version > 0 {
		write = statement{updateRow, append(write.args, strconv.FormatInt(r.version, 10))}
	}
	changed, err := c.run(ctx, write)
	if hasState(err, serializationFailure) { // where that is the default isolation
		return false, nil
	}
	return len(changed) == 1, err
}

// forPeople is a text that is JSON as JSON, and any other one as a string: not
// all of what is JSON to others is JSON to Postgres.
func forPeople(meta string) string {
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

// verb is what is done to a key.
type verb struct {
	op, key string
	change  func(*rules.State, rules.Instant) (lease.Lease, error)
	// channels are told of the change, with a space between them.
	channels string
	// beats says that a positive answer is a heartbeat.
	beats bool
}

// update applies a verb to the key's row, again and again while others change
// the row in between: each time that is somebody's success.
func (s *Store) update(ctx context.Context, v verb) (l lease.Lease, answer error) {
	err := s.conns.do(ctx, v.op, func(c *conn) error {
		unchanged, last := 0, int64(-1)
		for {
			r, err := s.read(ctx, c, v.key)
			if err != nil {
				return err
			}
			before, err := json.Marshal(r.state)
			if err != nil {
				return err
			}
			l, answer = v.change(&r.state, r.now)
			beat := v.beats && answer == nil // which is told even if it changes nothing else
			after, err := json.Marshal(r.state)
			if err != nil || bytes.Equal(before, after) && !beat {
				return err
			}
			if saved, err := s.save(ctx, c, v.key, r, after, beat, v.channels); saved || err != nil {
				return err
			}
			if r.version != last {
				unchanged, last = 0, r.version
			}
			if unchanged++; unchanged == refusals {
				return errNotSaved
			}
		}
	})
	if err != nil {
		return lease.Lease{}, err
	}
	return l, answer
}

// refusals is how often a row that nobody has changed may refuse a change.
const refusals = 10

// hasState reports whether the server answered with this SQLSTATE.
func hasState(err error, state string) bool {
	var answer *pgconn.PgError
	return errors.As(err, &answer) && answer.Code == state
}
