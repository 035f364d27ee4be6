package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// A replica sends its time with each reply, which may be ten seconds old. So this finds a
// clock that is ahead, and not one that is behind. Old servers have no such column, and not
// every user may read it.
const readSettings = `SELECT current_setting('server_version'), pg_is_in_recovery(), current_setting('fsync'),
	current_setting('synchronous_standby_names'), current_setting('synchronous_commit'), count(r.pid),
	coalesce(max(floor(extract(epoch FROM (to_jsonb(r) ->> 'reply_time')::timestamptz - clock_timestamp()) * 1000)), 0)
	FROM (VALUES (1)) one LEFT JOIN pg_stat_replication r ON r.state IS DISTINCT FROM 'backup'`

// setup has the settings of a server that matter.
type setup struct {
	version, fsync, names, commit string
	recovers                      bool
	replicas                      int
	ahead                         time.Duration // by how much a replica's clock is ahead, at least
}

// Examine implements [lease.Examiner].
func (s *Store) Examine(ctx context.Context, _, margin time.Duration) []lease.Finding {
	var found setup
	err := s.conns.do(ctx, "examine", func(c *conn) error {
		rows, err := c.run(ctx, statement{sql: readSettings})
		if err != nil {
			return err
		}
		if len(rows) != 1 || !found.parse(rows[0]) {
			return errNoAnswer
		}
		return nil
	})
	if err != nil {
		return []lease.Finding{lease.Broken("server", err)}
	}
	server := "postgres " + found.version + " at " + s.conns.addr
	return append([]lease.Finding{lease.Passed("server", server), found.role(), found.persistence()}, found.clock(margin)...)
}

func (s *setup) parse(columns [][]byte) bool {
	if len(columns) != 7 {
		return false
	}
	s.version, s.recovers, s.fsync = string(columns[0]), string(columns[1]) == "t", string(columns[2])
	s.names, s.commit = strings.TrimSpace(string(columns[3])), string(columns[4])
	replicas, err := strconv.Atoi(string(columns[5]))
	ahead, errAhead := strconv.ParseFloat(string(columns[6]), 64)
	s.replicas, s.ahead = replicas, time.Duration(ahead)*time.Millisecond
	return err == nil && errAhead == nil
}

// waits reports whether a grant is acknowledged only when a replica has it.
// synchronous_commit is that of leaderrun's own sessions, in which it is never off; see
// prepare.
func (s *setup) waits() bool { return s.names != "" && s.commit != "local" }

func (s *setup) role() lease.Finding {
	switch {
	case s.recovers:
		return lease.Failed("role", "a standby server: it grants nothing", "name the primary, or all hosts and target_session_attrs=read-write")
	case s.waits():
		return lease.Passed("role", "primary; a grant waits for a replica (synchronous_standby_names = "+lease.Readable(s.names)+"): promote only one of those that it waits for")
	case s.names != "":
		return lease.Warned("role", "primary; synchronous_standby_names is set, but with synchronous_commit = "+s.commit+" no grant waits for a replica: a failover can lose the newest",
			"ALTER ROLE this user SET synchronous_commit = on")
	case s.replicas > 0:
		return lease.Warned("role", fmt.Sprintf("primary, replicas: %d; they follow behind, and a failover can lose the newest grant", s.replicas),
			"set synchronous_standby_names, or have the job's sink check the token (docs/fencing.md)")
	}
	return lease.Passed("role", "primary")
}

func (s *setup) persistence() lease.Finding {
	if s.fsync != "on" {
		return lease.Failed("persistence", "fsync is off: a crash can forget grants", "set fsync = on")
	}
	return lease.Passed("persistence", "fsync is on")
}

func (s *setup) clock(margin time.Duration) []lease.Finding {
	if s.ahead <= margin {
		return nil
	}
	return []lease.Finding{lease.Warned("replica clocks",
		fmt.Sprintf("a replica's clock is ahead of the primary's by %s at least, and %s is allowed: after a failover leases end early", s.ahead, margin.Round(time.Millisecond)),
		"look after the time of all servers: chrony, or what the virtual machine offers")}
}
