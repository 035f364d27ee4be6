package etcd

import (
	"crypto/tls"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
)

const prefix = "leaderrun"

func TestURL(t *testing.T) {
	safe := &tls.Config{MinVersion: tls.VersionTLS12}
	leasetest.ReadsURLs(t, parseURL, map[string]*target{
		"etcd://etcd.example":                        {hosts: []string{"etcd.example:2379"}},
		"etcd://127.0.0.1:1/":                        {hosts: []string{"127.0.0.1:1"}},
		"etcd://a,b:7,[::1],[::2]:2":                 {hosts: []string{"a:2379", "b:7", "[::1]:2379", "[::2]:2"}},
		"etcd://cron:secret@h":                       {hosts: []string{"h:2379"}, user: "cron", password: "secret"},
		"etcd://cron:a%3Ab%2Fc%3Fd%23e%40h%25@g,h":   {hosts: []string{"g:2379", "h:2379"}, user: "cron", password: "a:b/c?d#e@h%"},
		"etcds://h":                                  {hosts: []string{"h:2379"}, tls: safe},
		"etcds://u:p@h?server_name=b&insecure=true":  {hosts: []string{"h:2379"}, user: "u", password: "p", tls: &tls.Config{MinVersion: tls.VersionTLS12, ServerName: "b", InsecureSkipVerify: true}},
		"etcds://h/?insecure=false&server_name=b%2B": {hosts: []string{"h:2379"}, tls: &tls.Config{MinVersion: tls.VersionTLS12, ServerName: "b+"}},
	})
}

func TestURLIsRefused(t *testing.T) {
	leasetest.RefusesURLs(t, func(url, prefix string) error { _, err := New(Options{URL: url, Prefix: prefix}); return err }, "etcd://h",
		"", "etcd", "etcd:", "etcd:h", "http://s3cret", "ETCD://h",
		"etcd://", "etcd:///", "etcd://u:s3cret@", "etcd://,h", "etcd://h,", "etcd://h:0", "etcd://h:s3cret", "etcd://h:70000", "etcd://[h", "etcd://h]",
		"etcd://u@h", "etcd://u:@h", "etcd://:s3cret@h", "etcd://u:s3cret#@h", "etcd://u:s3cret/@h", "etcd://u:%zz@h",
		"etcd://h/s3cret", "etcd://h#s3cret", "etcd://h?ca=x", "etcd://h?",
		"etcds://h?x=s3cret", "etcds://h?ca=", "etcds://h?ca=a&ca=b", "etcds://h?ca=/does/not/exist", "etcds://h?cert=a", "etcds://h?insecure=s3cret", "etcds://h?ca=%zz",
		"etcd://u:file%3A%2Fdoes%2Fnot%2Fexist@h",
	)
}

func FuzzURL(f *testing.F) {
	f.Add("etcd://u:p@a,b:7")
	f.Add("etcds://u:p@h?server_name=b&insecure=true")
	f.Fuzz(func(t *testing.T, url string) {
		target, err := parseURL(url)
		if err == nil && (len(target.hosts) == 0 || (target.user == "") != (target.password == "")) {
			t.Errorf("%q: %+v", url, target)
		}
	})
}
