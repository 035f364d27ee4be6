package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// Examine implements [lease.Examiner].
func (s *Store) Examine(ctx context.Context, _ time.Duration) []lease.Finding {
	var row [][]byte
	err := s.conns.do(ctx, "examine", func(c *conn) error {
		found, err := c.run(ctx, statement{sql: `SELECT current_setting('server_version'), pg_is_in_recovery(), current_setting('fsync'),
	(SELECT count(*) FROM pg_stat_replication), current_setting('synchronous_standby_names')`})
		if err != nil {
			return err
		}
		if len(found) != 1 || len(found[0]) != 5 {
			return errNoAnswer
		}
		row = found[0]
		return nil
	})
	if err != nil {
		var failure *lease.StoreError
		_ = errors.As(err, &failure) // conns has no others
		return []lease.Finding{{Subject: "server", Verdict: lease.Bad, Text: err.Error(), Cure: failure.Cure}}
	}
	findings := []lease.Finding{{Subject: "server", Verdict: lease.Fine, Text: "postgres " + string(row[0]) + " at " + s.conns.addr}}
	role := lease.Finding{Subject: "role", Verdict: lease.Fine, Text: "primary"}
	switch {
	case string(row[1]) == "t":
		role = lease.Finding{Subject: "role", Verdict: lease.Bad, Text: "a standby server: it grants nothing", Cure: "name the primary, or all hosts and target_session_attrs=read-write"}
	case string(row[3]) != "0" && len(row[4]) == 0:
		role.Verdict, role.Text = lease.Doubtful, "primary with replicas that follow behind: a failover can lose the newest grant"
		role.Cure = "set synchronous_standby_names, or have the job's sink check the token (docs/fencing.md)"
	}
	disk := lease.Finding{Subject: "persistence", Verdict: lease.Fine, Text: "fsync is on"}
	if string(row[2]) != "on" {
		disk = lease.Finding{Subject: "persistence", Verdict: lease.Bad, Text: "fsync is off: a crash can forget grants", Cure: "set fsync = on"}
	}
	return append(findings, role, disk)
}
