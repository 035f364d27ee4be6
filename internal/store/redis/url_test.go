package redis

import (
	"crypto/tls"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
)

func TestURL(t *testing.T) {
	for _, c := range []struct {
		url, addr, user, password string
		db                        int
	}{
		{"redis://127.0.0.1:6379/0", "127.0.0.1:6379", "", "", 0},
		{"redis://redis.example", "redis.example:6379", "", "", 0},
		{"redis://redis.example/", "redis.example:6379", "", "", 0},
		{"redis://h:1/15", "h:1", "", "", 15},
		{"redis://[::1]:7000/1", "[::1]:7000", "", "", 1},
		{"redis://[::1]", "[::1]:6379", "", "", 0},
		{"redis://:secret@h", "h:6379", "", "secret", 0},
		{"redis://cron:secret@h:65535", "h:65535", "cron", "secret", 0},
		{"redis://cron:a%3Ab%2Fc%3Fd%23e%5Bf%5Dg%40h%25@h", "h:6379", "cron", "a:b/c?d#e[f]g@h%", 0},
	} {
		o, err := parseURL(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if o.addrs[0] != c.addr || o.user != c.user || o.password != c.password || o.db != c.db {
			t.Errorf("%s: %q %q %q %d", c.url, o.addrs, o.user, o.password, o.db)
		}
	}
}

func TestURLsOfOtherKinds(t *testing.T) {
	leasetest.ReadsURLs(t, parseURL, map[string]*target{
		"unix:///run/redis.sock":                                       {kind: socket, addrs: []string{"/run/redis.sock"}},
		"unix:///run/a%20b%3F,c.sock?db=2":                             {kind: socket, addrs: []string{"/run/a b?,c.sock"}, db: 2},
		"unix://u:p@/s":                                                {kind: socket, addrs: []string{"/s"}, user: "u", password: "p"},
		"redis-sentinel://h/n":                                         {kind: sentinel, addrs: []string{"h:26379"}, name: "n"},
		"redis-sentinel://a:1,b,[::1],[::2]:2/my-1_.n/3":               {kind: sentinel, addrs: []string{"a:1", "b:26379", "[::1]:26379", "[::2]:2"}, name: "my-1_.n", db: 3},
		"redis-sentinel://u:p%2C@a,b/n/?sentinel_password=a+b%20c%26":  {kind: sentinel, addrs: []string{"a:26379", "b:26379"}, name: "n", user: "u", password: "p,", sentinelPassword: "a+b c&"},
		"redis-sentinel://a/n?sentinel_username=u&sentinel_password=p": {kind: sentinel, addrs: []string{"a:26379"}, name: "n", sentinelUser: "u", sentinelPassword: "p"},
		"redis-cluster://a,b:7/":                                       {kind: cluster, addrs: []string{"a:6379", "b:7"}},
		"redis-cluster://:p@a/0":                                       {kind: cluster, addrs: []string{"a:6379"}, password: "p"},
		"rediss://a":                                                   {addrs: []string{"a:6379"}, tls: &tls.Config{MinVersion: tls.VersionTLS12}},
		"rediss-cluster://a?server_name=b&insecure=true":               {kind: cluster, addrs: []string{"a:6379"}, tls: &tls.Config{MinVersion: tls.VersionTLS12, ServerName: "b", InsecureSkipVerify: true}},
		"rediss-sentinel://a/n?insecure=false":                         {kind: sentinel, addrs: []string{"a:26379"}, name: "n", tls: &tls.Config{MinVersion: tls.VersionTLS12}},
	})
}

func TestBadURL(t *testing.T) {
	leasetest.SaysWhy(t, func(url, prefix string) error { _, err := New(Options{URL: url, Prefix: prefix}); return err }, "redis://h", [][2]string{
		{"", "no //"},
		{"sesame@h:6379", "no //"},
		{"Redis://h", "no //"},
		{"redis://", "names no host"},
		{"redis://:6379", "names no host"},
		{"redis://:sesame@", "names no host"},
		{"redis://h:0", "port"},
		{"redis://h:65536", "port"},
		{"redis://h:sesame", "cannot be read"},
		{"redis://h\n", "cannot be read"},
		{"redis://[::1", "cannot be read"},
		{"redis://h/sesame/0", "database in the URL is not a number"},
		{"redis://h/+1", "database in the URL is not a number"},
		{"redis://h/0/", "database in the URL is not a number"},
		{"redis://h/99999999999", "database in the URL is not a number"},
		{"redis://h?db=1", "does not know"},
		{"redis://h,sesame", "names several hosts"},
		{"rediss://h,h", "names several hosts"},
		{"rediss://h?tls=sesame", "does not know"},
		{"rediss://h?sentinel_password=sesame", "does not know"},
		{"rediss://cron:1?sesame@h", "cannot have"},
		{"rediss://h?server_name=", "the parameter server_name of the URL is empty or given twice"},
		{"rediss://h?server_name=a&server_name=b", "the parameter server_name of the URL is empty or given twice"},
		{"rediss://h?server_name=%zz", "the parameters of the URL cannot be read"},
		{"rediss://h?server_name=a;b", "the parameters of the URL cannot be read"},
		{"rediss://h?insecure=sesame", "insecure of the URL is neither true nor false"},
		{"rediss://h?insecure=true#sesame", "begins nothing"},
		{"unix://", "names no socket"},
		{"unix:///run/", "names no socket"},
		{"unix://run/redis.sock", "names a host"},
		{"unix://cron:sesame@sesame/s", "names a host"},
		{"unix:///s?db=x", "database in the URL is not a number"},
		{"unix:///s?ca=f", "does not know"},
		{"unix://cron@/s", "no password"},
		{"redis-sentinel://", "names no host"},
		{"redis-sentinel://h", "under which name"},
		{"redis-sentinel://h/", "under which name"},
		{"redis-sentinel://h//0", "under which name"},
		{"redis-sentinel://h/my%20master", "under which name"},
		{"redis-sentinel://cron:1/sesame@h", "under which name"},
		{"redis-sentinel://h/n/x", "database in the URL is not a number"},
		{"redis-sentinel://a,,b/n", "names no host"},
		{"redis-sentinel://a,b:x/n", "a host in the URL cannot be read"},
		{"redis-sentinel://a,b:0/n", "port"},
		{"redis-sentinel://a/n?sentinel_username=cron", "no sentinel_password"},
		{"redis-sentinel://a/n?ca=f", "does not know"},
		{"redis-cluster://a,b/1", "a cluster has none"},
		{"redis-cluster://a,b/sesame", "a cluster has none"},
		{"redis-cluster://a?ca=f", "does not know"},
		{"redis-cluster://cron@a", "no password"},
		{"redis-sentinels://a/n", "no //"},
		{"redis://h/0?", "begins nothing"},
		{"redis://h/0?password=sesame", "does not know"},
		{"redis://h/0#sesame", "begins nothing"},
		{"redis://sesame@h", "no password"},
		{"redis://cron:@h", "no password"},
		{"redis://:@h", "no password"},
		{"redis://@h", "no password"},
		// passwords that were not encoded
		{"redis://:ses#ame@h", "cannot be read"},
		{"redis://cron:1#sesame@h", "begins nothing"},
		{"redis://cron:1?sesame@h", "cannot have"},
		{"redis://cron:1/sesame@h", "database in the URL is not a number"},
		{"redis://cron:ses%ame@h", "cannot be read"},
	}...)
}
