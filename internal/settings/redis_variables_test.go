package settings

import (
	"net/url"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/settings/settingstest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// Each variable MUTEX_REDIS_X is read before REDIS_X, as the program does that they come from: a host
// that is moved to leaderrun must not lead beside the old ones.
func TestRedisSets(t *testing.T) {
	const none = "redis://127.0.0.1:6379/0"
	tests := []struct{ env, store, prefix, source string }{
		{"REDIS_HOST=r", "redis://r:6379/0", "leaderrun", "REDIS_HOST"},
		{"REDIS_HOST=r REDIS_PORT=7 REDIS_USERNAME=u REDIS_PASSWORD=p REDIS_DB=3 REDIS_PREFIX=x", "redis://u:p@r:7/3", "x", "REDIS_HOST"},
		{"REDIS_HOST=r REDIS_PASSWORD=p", "redis://:p@r:6379/0", "leaderrun", "REDIS_HOST"},
		{"REDIS_HOST=r REDIS_USERNAME=u", "redis://u@r:6379/0", "leaderrun", "REDIS_HOST"},
		{"REDIS_HOST=::1", "redis://[::1]:6379/0", "leaderrun", "REDIS_HOST"},
		{"REDIS_HOST=r REDIS_PORT= REDIS_DB= REDIS_PASSWORD= REDIS_PREFIX= REDIS_SENTINEL_HOST=", "redis://r:6379/0", "leaderrun", "REDIS_HOST"},
		{"REDIS_URL=rediss://u:p@r:1/2?x=y", "rediss://u:p@r:1/2?x=y", "leaderrun", "REDIS_URL"},

		{"MUTEX_REDIS_SENTINEL_HOST=s MUTEX_REDIS_SENTINEL_NAME=n", "redis-sentinel://s:26379/n/0", "leaderrun", "MUTEX_REDIS_SENTINEL_HOST"},
		{"REDIS_SENTINEL_HOST=a,b:7,::1,[::2]:8 REDIS_SENTINEL_PORT=9 REDIS_SENTINEL_NAME=n REDIS_USERNAME=u REDIS_PASSWORD=p REDIS_DB=3 REDIS_PREFIX=x",
			"redis-sentinel://u:p@a:9,b:7,[::1]:9,[::2]:8/n/3", "x", "REDIS_SENTINEL_HOST"},
		// with sentinels, host and port of the server do not count
		{"REDIS_HOST=r REDIS_PORT=7 REDIS_SENTINEL_HOST=s REDIS_SENTINEL_NAME=n", "redis-sentinel://s:26379/n/0", "leaderrun", "REDIS_SENTINEL_HOST"},
		{"REDIS_HOST=r REDIS_SENTINEL_HOST= REDIS_SENTINEL_NAME= REDIS_SENTINEL_PORT=26379", "redis://r:6379/0", "leaderrun", "REDIS_HOST"},
		{"MUTEX_REDIS_HOST=m REDIS_SENTINEL_HOST=s REDIS_SENTINEL_NAME=n", "redis-sentinel://s:26379/n/0", "leaderrun", "REDIS_SENTINEL_HOST"},
		{"MUTEX_REDIS_SENTINEL_HOST=s MUTEX_REDIS_SENTINEL_NAME=n REDIS_SENTINEL_PORT=9 REDIS_PASSWORD=p REDIS_URL=redis://u", "redis-sentinel://:p@s:9/n/0", "leaderrun", "MUTEX_REDIS_SENTINEL_HOST"},
		{"REDIS_URL=redis://u REDIS_SENTINEL_HOST=s REDIS_SENTINEL_NAME=n", "redis-sentinel://s:26379/n/0", "leaderrun", "REDIS_SENTINEL_HOST"},

		{"REDIS_URL=redis://u REDIS_HOST=r REDIS_PASSWORD=p REDIS_PREFIX=x", "redis://:p@r:6379/0", "x", "REDIS_HOST"},
		{"REDIS_URL=redis://u REDIS_PORT=7 REDIS_PASSWORD=p REDIS_PREFIX=x", "redis://u", "x", "REDIS_URL"},
		{"REDIS_URL=redis://u MUTEX_REDIS_PREFIX=y REDIS_PREFIX=x", "redis://u", "y", "REDIS_URL"},
		{"MUTEX_REDIS_HOST=m REDIS_PREFIX=app", "redis://m:6379/0", "app", "MUTEX_REDIS_HOST"},
		{"MUTEX_REDIS_PREFIX=y REDIS_HOST=r REDIS_PREFIX=x", "redis://r:6379/0", "y", "REDIS_HOST"},
		{"MUTEX_REDIS_PASSWORD=q REDIS_HOST=r REDIS_PASSWORD=p", "redis://:q@r:6379/0", "leaderrun", "REDIS_HOST"},
		{"MUTEX_REDIS_HOST= REDIS_HOST=r", "redis://r:6379/0", "leaderrun", "REDIS_HOST"},
		{"MUTEX_REDIS_HOST=m REDIS_URL=redis://u REDIS_HOST=r REDIS_PORT=7 REDIS_USERNAME=u REDIS_PASSWORD=p REDIS_DB=3 REDIS_PREFIX=x", "redis://u:p@m:7/3", "x", "MUTEX_REDIS_HOST"},
		{"MUTEX_REDIS_HOST=m MUTEX_REDIS_PORT=8 MUTEX_REDIS_PREFIX=y REDIS_PASSWORD=p REDIS_PORT=9 REDIS_PREFIX=x", "redis://:p@m:8/0", "y", "MUTEX_REDIS_HOST"},

		// without a host they are the application's: no set
		{"REDIS_PASSWORD=p REDIS_PORT=7 REDIS_DB=3 REDIS_PREFIX=x REDIS_TIMEOUT=5", none, "leaderrun", ""},
		// what Kubernetes sets for services that are called redis and mutex-redis
		{"REDIS_SERVICE_HOST=10.0.0.1 REDIS_SERVICE_PORT=6379 REDIS_PORT=tcp://10.0.0.1:6379 REDIS_PORT_6379_TCP_ADDR=10.0.0.1", none, "leaderrun", ""},
		{"MUTEX_REDIS_SERVICE_HOST=10.0.0.1 MUTEX_REDIS_PORT=tcp://10.0.0.1:6379 MUTEX_REDIS_PORT_6379_TCP=tcp://10.0.0.1:6379 REDIS_HOST=r", "redis://r:6379/0", "leaderrun", "REDIS_HOST"},
		{"REDIS_SENTINEL_SERVICE_HOST=10.0.0.1 REDIS_SENTINEL_PORT=tcp://10.0.0.1:26379 REDIS_SENTINEL_PORT_26379_TCP_PORT=26379", none, "leaderrun", ""},
		{"REDIS_SENTINEL_HOST=s REDIS_SENTINEL_NAME=n REDIS_SENTINEL_PORT=tcp://10.0.0.1:26379", "redis-sentinel://s:26379/n/0", "leaderrun", "REDIS_SENTINEL_HOST"},
		{"REDIS_HOST=r REDIS_PORT=tcp://10.0.0.1:6379", "redis://r:6379/0", "leaderrun", "REDIS_HOST"},
		{"MUTEX_REDIS_HOST=m MUTEX_REDIS_PORT=tcp://10.0.0.1:6379", "redis://m:6379/0", "leaderrun", "MUTEX_REDIS_HOST"},
		{"MUTEX_REDIS_HOST=m MUTEX_REDIS_PORT=tcp://10.0.0.1:6379 REDIS_PORT=7", "redis://m:7/0", "leaderrun", "MUTEX_REDIS_HOST"},
	}
	for _, tt := range tests {
		t.Run(tt.env, func(t *testing.T) {
			settingstest.NoSettings(t)
			settingstest.SetVariables(t, strings.Fields(tt.env)...)
			c, err := loaded(t, []string{"--key", "k", "job"})
			if err != nil || c.Store != tt.store || c.Prefix != tt.prefix || c.StoreSource != tt.source {
				t.Errorf("store %q, prefix %q from %q, %v", c.Store, c.Prefix, c.StoreSource, err)
			}
		})
	}
}

// If a store is named, these variables are ignored, even invalid ones.
func TestNamedStoreIgnoresSets(t *testing.T) {
	settingstest.NoSettings(t)
	settingstest.SetVariables(t, "MUTEX_REDIS_SENTINEL_HOST=s", "REDIS_URL=", "REDIS_PORT=http")
	if c, err := loaded(t, []string{"--key", "k", "--store", "redis://h", "job"}); err != nil || c.Store != "redis://h" {
		t.Errorf("store %q, %v", c.Store, err)
	}
}

func TestPasswordsSurviveTheAddress(t *testing.T) {
	for _, password := range []string{"p", "a:b@c/d?e#f", "100%", "sp ace", "ünï", "'\"\\", "+&=", "%41"} {
		settingstest.NoSettings(t)
		settingstest.SetVariables(t, "REDIS_HOST=h", "REDIS_USERNAME=us:er", "REDIS_PASSWORD="+password)
		c, err := loaded(t, []string{"--key", "k", "job"})
		must.Succeed(t, err)
		u, err := url.Parse(c.Store)
		must.Succeed(t, err)
		if got, _ := u.User.Password(); got != password || u.User.Username() != "us:er" || u.Host != "h:6379" || u.Path != "/0" {
			t.Errorf("password %q, user %q at %s%s; want %q", got, u.User.Username(), u.Host, u.Path, password)
		}
	}
}
