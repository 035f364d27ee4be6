package cmd

import (
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/leasefile"
	"github.com/leaderrun/leaderrun/internal/runner"
	"github.com/leaderrun/leaderrun/internal/settings"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// It leads while stop-by is in the future and the lease is the one named by the
// environment.
func TestLeads(t *testing.T) {
	const holder = "h/1/0123456789abcdef0123456789abcdef"
	for _, tt := range []struct {
		stopBy, left  time.Duration // from now on
		holder, token string
		want          bool
	}{
		{time.Hour, 0, holder, "7", true},
		{time.Hour, 59 * time.Minute, holder, "7", true},
		{time.Hour, 61 * time.Minute, holder, "7", false},
		{-time.Millisecond, 0, holder, "7", false},
		{time.Hour, 0, holder, "8", false},
		{time.Hour, 0, "h/2" + holder[3:], "7", false},
	} {
		f, err := leasefile.Create([]string{t.TempDir()}, leasefile.Lease{Token: 7, Holder: holder, StopBy: runner.Now() + tt.stopBy})
		must.Succeed(t, err)
		t.Setenv(settings.LeaseFileVariable, f.Path())
		t.Setenv(settings.HolderVariable, tt.holder)
		t.Setenv(settings.TokenVariable, tt.token)
		if got := leads(tt.left); got != tt.want {
			t.Errorf("%+v: leads %t", tt, got)
		}
		f.Remove()
		f.Close()
	}
}
