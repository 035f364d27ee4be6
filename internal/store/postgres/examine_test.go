//go:build linux

package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

func TestExamine(t *testing.T) {
	b := newBackend(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	findings := b.open(t).Examine(ctx, 0, time.Second)
	want := map[string]string{"server": "postgres ", "role": "primary", "persistence": "fsync is off"}
	if len(findings) != len(want) {
		t.Errorf("%+v", findings)
	}
	for _, f := range findings {
		bad := f.Subject == "persistence" // the tests' server does not sync its disk
		if !strings.Contains(f.Text, want[f.Subject]) || (f.Verdict == lease.Bad) != bad || (f.Hint != "") != bad {
			t.Errorf("%+v", f)
		}
	}
}

func TestExamineNoServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	findings := openWith(t, Options{URL: "postgres://127.0.0.1:1/db"}).Examine(ctx, 0, time.Second)
	if len(findings) != 1 || findings[0].Verdict != lease.Bad || findings[0].Hint == "" {
		t.Errorf("%+v", findings)
	}
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
			role, disk := c.settings.role(), c.settings.persistence()
			if role.Verdict != c.role || !strings.Contains(role.Text, c.text) || (role.Hint == "") != (c.role == lease.Fine) {
				t.Errorf("%+v", role)
			}
			if disk.Verdict != c.persistence || (disk.Hint == "") != (c.persistence == lease.Fine) {
				t.Errorf("%+v", disk)
			}
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
			for _, f := range b.open(t).Examine(bounded(t), 0, time.Second) {
				if f.Subject == "role" && !strings.Contains(f.Text, want) {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}
