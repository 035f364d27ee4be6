package run

import (
	"os"
	"slices"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// All LEADERRUN_ variables, known or not, are removed from the command's environment:
// a setting may contain the store's password.
func TestEnvironment(t *testing.T) {
	t.Setenv("LEADERRUN_HOLDER", "")
	must.Succeed(t, os.Unsetenv("LEADERRUN_HOLDER"))
	environ := []string{
		"PATH=/bin", "LEADERRUN_STORE=redis://:s3cret@h", "REDIS_PASSWORD=application", "LEADERRUN_KEY=k", "LEADERRUN_LEASE_FILE=/old",
		"LEADERRUN_ANYTHING=s3cret", "NOTIFY_SOCKET=/run/s", "LEADERRUN=theirs", "HOME=",
	}
	own := []string{"PATH=/bin", "REDIS_PASSWORD=application", "LEADERRUN=theirs", "HOME="}
	l := lease.Lease{Holder: "h/1/x", Token: 1764000000123}
	for _, tt := range []struct {
		l    lease.Lease
		file string
		want []string
	}{
		{l, "/new", []string{"LEADERRUN_LEASE_FILE=/new", "LEADERRUN_KEY=k", "LEADERRUN_HOLDER=h/1/x", "LEADERRUN_TOKEN=1764000000123"}},
		{l, "", []string{"LEADERRUN_KEY=k", "LEADERRUN_HOLDER=h/1/x", "LEADERRUN_TOKEN=1764000000123"}},
		{lease.Lease{}, "", []string{"LEADERRUN_KEY=k"}},
	} {
		if got, want := environment(environ, "k", tt.l, tt.file), slices.Concat(own, tt.want); !slices.Equal(got, want) {
			t.Errorf("under %+v with %q:\n got %q\nwant %q", tt.l, tt.file, got, want)
		}
	}
}

// Inside nested leaderruns a command knows all their keys: none of them may be asked for
// again.
func TestEnvironmentInsideOthers(t *testing.T) {
	t.Setenv("LEADERRUN_HOLDER", "h/1/x")
	t.Setenv("LEADERRUN_KEY", "outer")
	for before, want := range map[string]string{"": "outer", "outermost": "outermost,outer"} {
		t.Setenv("LEADERRUN_OUTER_KEYS", before)
		if got := environment(nil, "k", lease.Lease{}, ""); !slices.Equal(got, []string{"LEADERRUN_OUTER_KEYS=" + want, "LEADERRUN_KEY=k"}) {
			t.Errorf("after %q: %q", before, got)
		}
	}
}
