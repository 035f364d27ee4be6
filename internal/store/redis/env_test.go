package redis

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// Package url cannot read a list of sentinels, and a password in it must not be taken for the
// sentinels'.
func TestPasswordFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		return "file:" + filepath.Join(dir, name)
	}
	one, other := write("one", "p&q=r s+t%\n"), write("pass word", "s3:cr/t@?#\r\nsecond line\n")
	const onePlain, otherPlain = "p&q=r s+t%", "s3:cr/t@?#"
	for _, c := range []struct{ url, password, sentinels string }{
		{"redis://u:" + url.PathEscape(one) + "@h:6379/0", onePlain, ""},
		{"redis-sentinel://u:" + url.PathEscape(other) + "@a:1,b:2/n?sentinel_password=" + one, otherPlain, onePlain},
		{"rediss-sentinel://a,b/n?sentinel_username=u&sentinel_password=" + url.PathEscape(other), "", otherPlain},
		{"redis-sentinel://a,b/n?sentinel_password=file", "", "file"},
		{"rediss-cluster://:" + url.PathEscape(one) + "@a,b", onePlain, ""},
		{"unix://:" + url.PathEscape(one) + "@/run/redis.sock?db=1", onePlain, ""},
		{"redis-sentinel://file:1,b/n", "", ""},
	} {
		got, err := parseURL(c.url)
		if err != nil || got.password != c.password || got.sentinelPassword != c.sentinels {
			t.Errorf("%s: %+v, %v", c.url, got, err)
		}
	}
	for file, want := range map[string]string{filepath.Join(dir, "missing"): "cannot be read: no such file", os.DevNull: "is empty"} {
		for _, text := range []string{"redis://:file:" + url.PathEscape(file) + "@h", "redis-sentinel://a/n?sentinel_password=file:" + file} {
			if _, err := parseURL(text); err == nil || !strings.Contains(err.Error(), `the password file "`+file+`" `+want) {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}

func TestPasswordFileOfVariables(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pass word")
	must.Succeed(t, os.WriteFile(file, []byte("s3:cr/t@%\n"), 0o600))
	found, err := fromEnvironment([]string{"REDIS_HOST=h", "REDIS_USERNAME=u", "REDIS_PASSWORD=file:" + file})
	must.Succeed(t, err)
	got, err := parseURL(found.Values["store"])
	if err != nil || got.user != "u" || got.password != "s3:cr/t@%" {
		t.Errorf("%+v, %v", got, err)
	}
}

// A secret that was made with echo ends with a line break. Everything that could have one is refused,
// and names its variable.
func TestOddVariables(t *testing.T) {
	for variable, want := range map[string]string{
		"REDIS_PASSWORD=s3cret\n":         "REDIS_PASSWORD has a line break in it",
		"MUTEX_REDIS_PASSWORD=s3cret\r\n": "MUTEX_REDIS_PASSWORD has a line break in it",
		"REDIS_HOST=h\n":                  "REDIS_HOST is not a host name or an IP address: it has a line break in it",
		"REDIS_HOST=\"h\"":                "REDIS_HOST is not a host name or an IP address: it begins with a quote",
		"REDIS_HOST= h":                   "REDIS_HOST is not a host name or an IP address: it begins with a blank",
		"REDIS_PORT=7\n":                  "REDIS_PORT: is not a number from 1 to 65535: it has a line break in it",
		"MUTEX_REDIS_DB='1'":              "MUTEX_REDIS_DB: is not a number from 0 to 2147483647: it begins with a quote",
	} {
		_, err := fromEnvironment([]string{variable, "REDIS_HOST=h"})
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v, want %s", variable, err, want)
		}
	}
	found, err := fromEnvironment([]string{"REDIS_USERNAME=u\n", "REDIS_PASSWORD=p", "REDIS_HOST=h"})
	must.Succeed(t, err)
	if _, err := New(Options{URL: found.Values["store"], Prefix: "p"}); err == nil || !strings.Contains(err.Error(), "line break") {
		t.Error(err)
	}
}
