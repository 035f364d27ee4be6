package settings

import (
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/settings/settingstest"
)

// A hint names what this user has set, and its commands ask the same store.
func TestHint(t *testing.T) {
	const wrong, next = "correct the user or the password in the store's URL", "leaderrun status --key k shows who leads"
	for _, tt := range []struct{ args, env, hint, want string }{
		{"", "", wrong, wrong},
		{"--store redis://h", "", wrong, "correct the user or the password in --store"},
		{"", "LEADERRUN_STORE=redis://h", wrong, "correct the user or the password in LEADERRUN_STORE"},
		{"", "REDIS_URL=redis://h", wrong, "correct the user or the password in REDIS_URL"},
		{"", "REDIS_HOST=h REDIS_PASSWORD=p", wrong, "correct the user or the password in REDIS_PASSWORD"},
		{"", "MUTEX_REDIS_HOST=h REDIS_USERNAME=u MUTEX_REDIS_PASSWORD=p", wrong, "correct the user or the password in REDIS_USERNAME or MUTEX_REDIS_PASSWORD"},
		{"", "REDIS_HOST=h", "start it, or correct host and port in the store's URL", "start it, or correct host and port in REDIS_HOST"},
		{"", "REDIS_HOST=h", "give the store's URL a password", "give REDIS_PASSWORD a password"},
		{"", "LEADERRUN_STORE=redis://h", next, next},
		{"--store redis://u:s3cret@h --prefix p", "", next, "leaderrun status --store 'redis://u:***@h' --prefix p --key k shows who leads"},
		{"--store file:/a", "", "leaderrun --help, leaderrun doctor", "leaderrun --help, leaderrun doctor --store file:/a"},
	} {
		settingstest.NoSettings(t)
		settingstest.SetVariables(t, strings.Fields(tt.env)...)
		c, err := loaded(t, append(strings.Fields("--key k "+tt.args), "job"))
		if got := c.Told.Hint(tt.hint); err != nil || got != tt.want {
			t.Errorf("%q %q: %q, want %q, %v", tt.args, tt.env, got, tt.want, err)
		}
	}
}

// Blanks and quotes that no shell has removed are named.
func TestOddValues(t *testing.T) {
	for _, tt := range [][3]string{
		{"store", `"redis://h"`, "begins with a quote"}, {"store", " redis://h", "begins with a blank"}, {"store", "redis://h/0 ", "ends with a blank"},
		{"store", "redis://:p@h\n", "line break"}, {"ttl", "'30s'", "begins with a quote"}, {"wait", " 30s", "begins with a blank"}, {"key", "k\n", "line break"},
	} {
		c := Default()
		if err := c.Set(tt[0], tt[1]); err == nil || !strings.Contains(err.Error(), tt[2]) {
			t.Errorf("%s %q: %v", tt[0], tt[1], err)
		}
	}
}
