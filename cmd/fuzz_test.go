package cmd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/settings"
	"github.com/leaderrun/leaderrun/internal/settings/settingstest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// Whatever the file, a variable and the command line contain: a configuration that
// is accepted is valid, and one that is refused comes with a problem and a hint.
func FuzzConfiguration(f *testing.F) {
	f.Add("key: nightly\nttl: 30s\nstore: redis://h\n", "WAIT", "forever", "kill-after", "5s")
	f.Add("", "TTL", "1", "key", "a b")
	f.Add("key: [a]\n", "", "", "ttl", "-1s")
	f.Add("key: !!binary aGk=\nttl: 0x10\n", "KEY_", "x", "renew", "1h")
	f.Add("&a [*a]\n", "STORE", "redis://:p@h", "signal", "KILL")
	f.Add("key: k\nKEY: l\nttl: 1e400\n", "ONCE_PER", "24h", "wait", "25h")
	f.Add("\x00\xff: {", "KEY", "\x1b[2J", "prefix", "é")
	f.Fuzz(func(t *testing.T, text, variable, value, flag, given string) {
		if strings.Contains(text+value+given, "file:") || strings.ContainsAny(variable+value, "\x00") || strings.Contains(variable, "=") {
			t.Skip() // reads another file; no variable
		}
		settingstest.NoSettings(t)
		t.Setenv("LEADERRUN_"+variable, value)
		file := filepath.Join(t.TempDir(), "settings.yaml")
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
		flags := settings.NewFlags()
		if flags.Lookup(flag) == nil || flags.Set(flag, given) != nil {
			t.Skip()
		}
		c, err := readSettings(flags, []string{"true"}, []string{file})
		if err == nil {
			if err := c.Validate(); err != nil || !lease.ValidKey(c.Key) || c.TTL < time.Second || c.Renew > c.TTL/3 {
				t.Errorf("taken: %+v, %v", c, err)
			}
			return
		}
		if refused, ok := errors.AsType[*settings.Error](err); !ok || refused.Problem == "" || refused.Hint == "" {
			t.Errorf("refused with %#v", err)
		}
	})
}
