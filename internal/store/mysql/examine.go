package mysql

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// setup has the variables that matter, by name, as far as the server has them.
type setup map[string]string

const readSetup = `SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'read_only', 'innodb_flush_log_at_trx_commit',
	'log_bin', 'sync_binlog', 'wsrep_on', 'group_replication_group_name')`

// Examine implements [lease.Examiner].
func (s *Store) Examine(ctx context.Context, _, _ time.Duration) []lease.Finding {
	found := setup{}
	err := s.conns.do(ctx, "examine", func(c *conn) error {
		variables, err := c.query(ctx, readSetup)
		for _, v := range variables {
			if len(v) == 2 {
				found[v[0]] = lease.Readable(lease.Cut(v[1], 100))
			}
		}
		if err == nil && found["version"] == "" {
			err = errNoAnswer
		}
		return err
	})
	if err != nil {
		return []lease.Finding{lease.Broken("server", err)}
	}
	server := found.name() + " at " + s.conns.latest.Load().addr
	return []lease.Finding{lease.Passed("server", server), found.role(), found.persistence()}
}

// name returns the server's name and version, with the comment that most servers have.
func (s setup) name() string {
	name := "MySQL"
	if strings.Contains(s["version"], "MariaDB") {
		name = "MariaDB"
	}
	name += " " + s["version"]
	if s["version_comment"] != "" {
		name += " (" + s["version_comment"] + ")"
	}
	return name
}

// on reports whether a variable is on, which servers write in several ways.
func (s setup) on(name string) bool {
	return s[name] != "" && !slices.Contains([]string{"0", "OFF", "off"}, s[name])
}

func (s setup) role() lease.Finding {
	switch {
	case s.on("read_only"):
		return lease.Failed("role", "read_only is on: it grants nothing", hintReplica)
	case s.on("wsrep_on"), s.on("group_replication_group_name"):
		return lease.Warned("role", "a node of a cluster, each of which has a clock of its own, and wakes none of the others' standbys",
			"have all hosts name the same node (docs/store-mysql.md)")
	}
	return lease.Passed("role", "takes writes")
}

func (s setup) persistence() lease.Finding {
	switch {
	case s["innodb_flush_log_at_trx_commit"] != "1":
		return lease.Failed("persistence", "innodb_flush_log_at_trx_commit is "+s["innodb_flush_log_at_trx_commit"]+": a crash can forget grants",
			"set innodb_flush_log_at_trx_commit = 1")
	case s.on("log_bin") && s["sync_binlog"] != "1":
		return lease.Warned("persistence", "sync_binlog is "+s["sync_binlog"]+": after a crash replicas can lack grants that this server has, or have others",
			"set sync_binlog = 1")
	}
	return lease.Passed("persistence", "a commit is on the disk")
}
