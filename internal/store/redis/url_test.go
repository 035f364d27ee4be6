package redis

import (
	"strings"
	"testing"
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
		if o.Addr != c.addr || o.Username != c.user || o.Password != c.password || o.DB != c.db {
			t.Errorf("%s: %q %q %q %d", c.url, o.Addr, o.Username, o.Password, o.DB)
		}
	}
}

func TestBadURL(t *testing.T) {
	for _, c := range []struct{ url, says string }{
		{"", `must begin with "redis://"`},
		{"127.0.0.1:6379", `must begin with "redis://"`},
		{"sesame@h:6379", `must begin with "redis://"`},
		{"http://h/", `must begin with "redis://"`},
		{"rediss://:sesame@h/", `must begin with "redis://"`},
		{"Redis://h", `must begin with "redis://"`},
		{"redis:h", `must begin with "redis://"`},
		{"redis://", "names no host"},
		{"redis:///0", "names no host"},
		{"redis://:6379", "names no host"},
		{"redis://:sesame@", "names no host"},
		{"redis://h:0", "port"},
		{"redis://h:65536", "port"},
		{"redis://h:99999999999999999999", "port"},
		{"redis://h:sesame", "cannot be read"},
		{"redis://h:-1", "cannot be read"},
		{"redis://h h", "cannot be read"},
		{"redis://h\n", "cannot be read"},
		{"redis://h%zz", "cannot be read"},
		{"redis://[::1", "cannot be read"},
		{"redis://h/x", "database number"},
		{"redis://h/sesame/0", "database number"},
		{"redis://h/-1", "database number"},
		{"redis://h/+1", "database number"},
		{"redis://h/0/", "database number"},
		{"redis://h/1.0", "database number"},
		{"redis://h/99999999999", "database number"},
		{"redis://h?db=1", "parameters"},
		{"redis://h/0?", "parameters"},
		{"redis://h/0?password=sesame", "parameters"},
		{"redis://h/0#sesame", "parameters"},
		{"redis://cron@h", "no password"},
		{"redis://sesame@h", "no password"},
		{"redis://cron:@h", "no password"},
		{"redis://:@h", "no password"},
		{"redis://@h", "no password"},
		// passwords that were not encoded
		{"redis://:ses#ame@h", "cannot be read"},
		{"redis://cron:1#sesame@h", "parameters"},
		{"redis://cron:1?sesame@h", "parameters"},
		{"redis://cron:1/sesame@h", "database number"},
		{"redis://cron:ses%ame@h", "cannot be read"},
	} {
		s, err := New(Options{URL: c.url, Prefix: prefix})
		if err == nil {
			t.Errorf("%q was accepted", c.url)
			_ = s.Close()
			continue
		}
		if !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v; want %q", c.url, err, c.says)
		}
		for _, part := range []string{"sesame", "ses#", "ame@", "cron"} {
			if strings.Contains(c.url, part) && strings.Contains(err.Error(), part) {
				t.Errorf("%q: the message shows %q: %v", c.url, part, err)
			}
		}
	}
}

func TestEmptyPrefix(t *testing.T) {
	if _, err := New(Options{URL: "redis://h"}); err == nil {
		t.Error("an empty prefix was accepted")
	}
}
