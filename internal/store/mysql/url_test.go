package mysql

import (
	"crypto/tls"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
)

const prefix = "leaderrun"

func TestURL(t *testing.T) {
	safe := &tls.Config{MinVersion: tls.VersionTLS12}
	leasetest.ReadsURLs(t, parseURL, map[string]*target{
		"mysql://cron@db.example/jobs":                       {addr: "db.example:3306", user: "cron", database: "jobs"},
		"mysql://cron:secret@127.0.0.1:1/jobs":               {addr: "127.0.0.1:1", user: "cron", password: "secret", database: "jobs"},
		"mysql://cr%40n:a%3Ab%2Fc%3Fd%23e%40h%25@[::1]/j%20": {addr: "[::1]:3306", user: "cr@n", password: "a:b/c?d#e@h%", database: "j "},
		"mysql://u:p@h/d?tls=true":                           {addr: "h:3306", user: "u", password: "p", database: "d", tls: safe},
		"mysql://u:p@h/d?server_name=b%2B":                   {addr: "h:3306", user: "u", password: "p", database: "d", tls: &tls.Config{MinVersion: tls.VersionTLS12, ServerName: "b+"}},
		"mysql://u:p@h/d?insecure=true":                      {addr: "h:3306", user: "u", password: "p", database: "d", tls: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}},
	})
}

func TestURLIsRefused(t *testing.T) {
	leasetest.RefusesURLs(t, func(url, prefix string) error { _, err := New(Options{URL: url, Prefix: prefix}); return err }, "mysql://u@h/d",
		"", "mysql", "mysql:", "mysql:h", "http://s3cret", "MYSQL://u@h/d", "mysql://", "mysql:///d", "mysql://u:s3cret@/d", "mysql://u@a,b/d",
		"mysql://h/d", "mysql://:s3cret@h/d", "mysql://u:s3cret@h", "mysql://u:s3cret@h/", "mysql://u@h/d/s3cret", "mysql://u@h/d#s3cret",
		"mysql://u@h:0/d", "mysql://u@h:s3cret/d", "mysql://u@h:70000/d", "mysql://u@[h/d", "mysql://u:s3cret#@h/d", "mysql://u:%zz@h/d", "mysql://u%00:p@h/d",
		"mysql://u@h/d?x=s3cret", "mysql://u@h/d?tls=", "mysql://u@h/d?tls=s3cret", "mysql://u@h/d?tls=false&ca=/x", "mysql://u@h/d?ca=a&ca=b", "mysql://u@h/d?ca=/does/not/exist",
		"mysql://u@h/d?cert=a", "mysql://u@h/d?insecure=s3cret", "mysql://u@h/d?ca=%zz", "mysql://u:file%3A%2Fdoes%2Fnot%2Fexist@h/d",
	)
}

func FuzzURL(f *testing.F) {
	f.Add("mysql://u:p@h:7/d")
	f.Add("mysql://u:p@h/d?server_name=b&insecure=true")
	f.Fuzz(func(t *testing.T, url string) {
		target, err := parseURL(url)
		if err == nil && (target.addr == "" || target.user == "" || target.database == "") {
			t.Errorf("%q: %+v", url, target)
		}
	})
}
