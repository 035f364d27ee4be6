//go:build linux

package mysql

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

func TestExamine(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	findings := b.open(t).Examine(bounded(t), 0, time.Second)
	if len(findings) != 3 {
		t.Errorf("%+v", findings)
	}
	networktest.Finds(t, networktest.Found(t, findings, "server"), lease.Fine, "MariaDB 10.")
	networktest.Finds(t, networktest.Found(t, findings, "role"), lease.Fine, "takes writes")
	networktest.Finds(t, networktest.Found(t, findings, "persistence"), lease.Bad, "innodb_flush_log_at_trx_commit is 2")
	networktest.FindsNoServer(t, openWith(t, Options{URL: "mysql://u@127.0.0.1:1/db"}).Examine(bounded(t), 0, time.Second))
}

// The verdicts on settings that decide whether a failover or a crash can lose a grant. No
// server is asked.
func TestJudgeSettings(t *testing.T) {
	for _, c := range []struct {
		name        string
		settings    setup
		role        lease.Verdict
		persistence lease.Verdict
	}{
		{"alone", setup{"read_only": "OFF", "innodb_flush_log_at_trx_commit": "1", "log_bin": "OFF", "sync_binlog": "0", "wsrep_on": "OFF"}, lease.Fine, lease.Fine},
		{"replica", setup{"read_only": "ON", "innodb_flush_log_at_trx_commit": "1"}, lease.Bad, lease.Fine},
		{"Galera", setup{"wsrep_on": "ON", "innodb_flush_log_at_trx_commit": "2"}, lease.Doubtful, lease.Bad},
		{"group replication", setup{"group_replication_group_name": "aaaa", "innodb_flush_log_at_trx_commit": "1"}, lease.Doubtful, lease.Fine},
		{"binlog", setup{"innodb_flush_log_at_trx_commit": "1", "log_bin": "ON", "sync_binlog": "0"}, lease.Fine, lease.Doubtful},
		{"MySQL 8", setup{"innodb_flush_log_at_trx_commit": "1", "log_bin": "ON", "sync_binlog": "1"}, lease.Fine, lease.Fine},
	} {
		t.Run(c.name, func(t *testing.T) {
			networktest.Finds(t, c.settings.role(), c.role, "")
			networktest.Finds(t, c.settings.persistence(), c.persistence, "")
		})
	}
}

func TestIdleRowsAreForgotten(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	run := func(key string) {
		t.Helper()
		must.Succeed(t, s.Release(bounded(t), grant(t, s, request(key)), lease.Result{Ran: true}))
	}
	age := func(key, days string) {
		b.do(t, "UPDATE leaderrun_leases SET version = version - "+days+" * 86400000, state = JSON_SET(state, '$.changed', JSON_VALUE(state, '$.changed') - "+days+" * 86400000) WHERE service_name = '"+key+"'")
	}
	run("old")
	run("young")
	grant(t, s, request("held")) // the server's clock was set forward, or the holder's host died
	age("held", "36")
	age("old", "36")
	age("young", "34")
	run("new")
	if got, want := b.do(t, "SELECT GROUP_CONCAT(service_name ORDER BY service_name SEPARATOR ' ') FROM leaderrun_leases"), "held new young"; got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
}
