package file

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
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
	then, path := time.Now().Add(-time.Duration(days)*day), file(t, dir, key, ".json")
	changed := regexp.MustCompile(`"changed":\d+`)
	write(t, path, changed.ReplaceAllString(must.Read(t, path), `"changed":`+strconv.FormatInt(then.UnixMilli(), 10)))
	must.Succeed(t, os.Chtimes(path, then, then))
}

func TestIdleKeysAreForgotten(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	old := run(t, s, request("z/old"))
	for i := range 12 { // no number of keys that must stay keeps others from going
		r := request("quarterly-" + strconv.Itoa(i))
		r.Period = 90 * day
		run(t, s, r)
		age(t, dir, r.Key, 269)
	}
	run(t, s, request("busy"))
	age(t, dir, "z/old", 36)
	age(t, dir, "busy", 36)
	write(t, filepath.Join(dir, "damaged.json"), "{")
	then := time.Now().Add(-1000 * day)
	must.Succeed(t, os.Chtimes(filepath.Join(dir, "damaged.json"), then, then))
	resume := keepBusy(t, dir, "busy")
	run(t, s, request("new"))
	resume()

	keys, err := s.Keys(t.Context())
	must.Succeed(t, err)
	if got := strings.Join(keys, " "); len(keys) != 15 || strings.Contains(got, "old") || !strings.Contains(got, "busy damaged new") {
		t.Errorf("keys %s, want all but the old one", got)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "z+old.*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if again := run(t, s, request("z/old")); again.Token <= old.Token {
		t.Errorf("token %d after %d", again.Token, old.Token)
	}
}
