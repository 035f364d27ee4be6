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
	findings := b.open(t).Examine(ctx, 0)
	want := map[string]string{"server": "postgres ", "role": "primary", "persistence": "fsync is off"}
	if len(findings) != len(want) {
		t.Errorf("%+v", findings)
	}
	for _, f := range findings {
		bad := f.Subject == "persistence" // the server of the tests has no time for it
		if !strings.Contains(f.Text, want[f.Subject]) || (f.Verdict == lease.Bad) != bad || (f.Cure != "") != bad {
			t.Errorf("%+v", f)
		}
	}
}

func TestExamineNoServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	findings := openWith(t, Options{URL: "postgres://127.0.0.1:1/db"}).Examine(ctx, 0)
	if len(findings) != 1 || findings[0].Verdict != lease.Bad || findings[0].Cure == "" {
		t.Errorf("%+v", findings)
	}
}
