//go:build linux

package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
)

func TestExamine(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	findings := b.open(t).Examine(bounded(t), 0, time.Second)
	if len(findings) != 3 {
		t.Errorf("%+v", findings)
	}
	networktest.Finds(t, networktest.Found(t, findings, "server"), lease.Fine, "postgres ")
	networktest.Finds(t, networktest.Found(t, findings, "role"), lease.Fine, "primary")
	networktest.Finds(t, networktest.Found(t, findings, "persistence"), lease.Bad, "fsync is off")
	networktest.FindsNoServer(t, openWith(t, Options{URL: "postgres://127.0.0.1:1/db"}).Examine(bounded(t), 0, time.Second))
}

// The verdicts on settings that decide whether a failover or a crash can lose a grant. No
// server is asked.
func TestJudgeSettings(t *testing.T) {
	for _, c := range []struct {
		name        string
		settings    setup
		role        lease.Verdict
		text        string
		persistence lease.Verdict
	}{
		{"alone", setup{fsync: "on", commit: "on"}, lease.Fine, "primary", lease.Fine},
		{"replicas behind", setup{fsync: "on", commit: "on", replicas: 2}, lease.Doubtful, "replicas: 2; they follow behind", lease.Fine},
		{"a replica that is waited for", setup{fsync: "on", commit: "on", replicas: 1, names: "*"}, lease.Fine, "a grant waits for a replica", lease.Fine},
		{"the same, applied", setup{fsync: "on", commit: "remote_apply", replicas: 1, names: "ANY 1 (a, b)"}, lease.Fine, "ANY 1 (a, b)", lease.Fine},
		{"named and not waited for", setup{fsync: "on", commit: "local", replicas: 1, names: "*"}, lease.Doubtful, "synchronous_commit = local", lease.Fine},
		{"no disk", setup{fsync: "off", commit: "on"}, lease.Fine, "primary", lease.Bad},
		{"standby", setup{fsync: "on", commit: "on", recovers: true}, lease.Bad, "grants nothing", lease.Fine},
	} {
		t.Run(c.name, func(t *testing.T) {
			networktest.Finds(t, c.settings.role(), c.role, c.text)
			networktest.Finds(t, c.settings.persistence(), c.persistence, "")
		})
	}
	s := setup{ahead: 400 * time.Millisecond}
	if f := s.clock(time.Second); f != nil {
		t.Errorf("%+v", f)
	}
	if f := s.clock(305 * time.Millisecond); len(f) != 1 || f[0].Verdict != lease.Doubtful || f[0].Hint == "" {
		t.Errorf("%+v", f)
	}
}

// The settings are those of leaderrun's own sessions, which wait for their writes
// whatever the role says.
func TestExamineOwnSettings(t *testing.T) {
	for commit, want := range map[string]string{"local": "with synchronous_commit = local no grant waits for a replica", "off": "a grant waits for a replica"} {
		t.Run(commit, func(t *testing.T) {
			b := newBackend(t, "synchronous_commit="+commit, "synchronous_standby_names=*")
			role := networktest.Found(t, b.open(t).Examine(bounded(t), 0, time.Second), "role")
			if !strings.Contains(role.Text, want) {
				t.Errorf("%+v", role)
			}
		})
	}
}
