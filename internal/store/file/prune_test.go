package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

const day = 24 * time.Hour

// run serves a tick of key.
func run(t *testing.T, s *Store, r lease.Request) lease.Lease {
	t.Helper()
	l := acquire(t, s, r)
	must.Succeed(t, s.Release(t.Context(), l, lease.Result{Ran: true, Success: true}))
	return l
}

// age makes the key's last change days old.
func age(t *testing.T, dir, key string, days int) {
	t.Helper()
	then := time.Now().Add(-time.Duration(days) * day)
	must.Succeed(t, os.Chtimes(file(t, dir, key, ".json"), then, then))
}

func TestIdleKeysAreForgotten(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	quarterly := func(key string) lease.Request {
		r := request(key)
		r.Period = 90 * day
		return r
	}
	old := run(t, s, request("a/old"))
	run(t, s, request("young"))
	run(t, s, quarterly("quarterly"))
	run(t, s, quarterly("given-up"))
	acquire(t, s, request("held"))
	run(t, s, request("busy"))
	for key, days := range map[string]int{"a/old": 36, "young": 34, "quarterly": 269, "given-up": 271, "held": 36, "busy": 36} {
		age(t, dir, key, days)
	}
	write(t, filepath.Join(dir, "damaged.json"), "{")
	age(t, dir, "damaged", 1000)
	resume := keepBusy(t, dir, "busy")

	run(t, s, request("young"))
	if _, err := os.Stat(file(t, dir, "a/old", ".json")); err != nil {
		t.Errorf("a key that is not new has others forgotten: %v", err)
	}
	run(t, s, request("new"))
	resume()
	keys, err := s.Keys(t.Context())
	must.Succeed(t, err)
	if got, want := strings.Join(keys, " "), "busy damaged held new quarterly young"; got != want {
		t.Errorf("keys %s, want %s", got, want)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "a+old.*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if again := run(t, s, request("a/old")); again.Token <= old.Token {
		t.Errorf("token %d after %d", again.Token, old.Token)
	}
}
