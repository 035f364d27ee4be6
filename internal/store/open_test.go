package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/location"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// A store that takes any certificate is opened with a warning.
func TestInsecureStoreWarns(t *testing.T) {
	for address, insecure := range map[string]bool{
		"rediss://h?insecure=true": true, "rediss-cluster://h?insecure=true": true, "etcds://h?insecure=true": true, "mysql://u@h/d?insecure=true": true, "s3://leases?region=r&insecure=true": true,
		"redis://h": false, "rediss://h": false, "etcd://h": false, "etcds://h?insecure=false": false, "mysql://u@h/d": false, "mysql://u@h/d?tls=true": false,
	} {
		warned := ""
		s, err := Open(location.Options{URL: address, Prefix: "p", Warn: func(problem, _ string) { warned += problem }})
		must.Succeed(t, err)
		defer s.Close()
		if warns := strings.HasPrefix(warned, "insecure=true: "); warns != insecure || !insecure && warned != "" {
			t.Errorf("%s: warned %q", address, warned)
		}
	}
}

// The path of a password's file ends the part of the user and the host, unless its slashes
// are encoded.
func TestPasswordFileHint(t *testing.T) {
	for _, form := range []string{"redis://:%s@h", "redis-cluster://u:%s@h,g", "unix://:%s@/s", "postgres://u:%s@h/d", "mysql://u:%s@h/d", "etcd://u:%s@h"} {
		_, err := Open(location.Options{URL: fmt.Sprintf(form, "file:/etc/sesame"), Prefix: "p"})
		if failure, ok := errors.AsType[*lease.StoreError](err); !ok || !strings.Contains(failure.Hint, "%2F") || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: %v", form, err)
		}
	}
}

// toy is a store that is in no other package.
type toy struct {
	location.Store
	url    string
	prefix string
}

func (t *toy) Keys(context.Context) ([]string, error) { return []string{t.prefix, t.url}, nil }

// A store needs nothing but its factory: it is opened, shown and found in the
// environment like those of the product.
func TestStoreIsOneFactory(t *testing.T) {
	product := slices.Clone(factories)
	t.Cleanup(func() { factories = product })
	factories = append(factories, location.Factory{
		Schemes: []string{"toy"},
		Form:    "toy:BOX",
		Open: func(o location.Options) (location.Store, error) {
			o.Warn("toys break", "do not bite")
			return &toy{url: o.URL, prefix: o.Prefix}, nil
		},
		Redact: func(string) string { return "toy:***" },
		FromEnvironment: func(environ []string) (location.Found, error) {
			if !slices.Contains(environ, "TOY=box") {
				return location.Found{}, errors.New("no toy")
			}
			return location.Found{Values: map[string]string{"store": "toy:box"}, Variables: map[string]string{"store": "TOY"}}, nil
		},
	})
	found, err := FromEnvironment([]string{"HOME=/", "TOY=box"})
	if err != nil || found.Values["store"] != "toy:box" || found.Variables["store"] != "TOY" {
		t.Fatalf("%+v, %v", found, err)
	}
	warned := ""
	s, err := Open(location.Options{URL: found.Values["store"], Prefix: "p", Warn: func(problem, hint string) { warned = problem + "; " + hint }})
	if err != nil || warned != "toys break; do not bite" {
		t.Fatalf("warned %q, %v", warned, err)
	}
	if keys, err := s.Keys(t.Context()); err != nil || !slices.Equal(keys, []string{"p", "toy:box"}) {
		t.Errorf("%q, %v", keys, err)
	}
	if got := Redact("toy:secret"); got != "toy:***" {
		t.Error(got)
	}
	if _, err := Open(location.Options{URL: "lost://h"}); err == nil || !strings.Contains(err.Error(), `, file: or toy:, not with lost://`) {
		t.Errorf("an address of no store: %v", err)
	}
	if usage := Usage(); !strings.Contains(usage, " or toy:BOX; also ") {
		t.Errorf("the help does not show it: %s", usage)
	}
	if _, err := FromEnvironment(nil); err == nil {
		t.Error("an error of the last store is lost")
	}
}

func TestUnknownAddressIsOneShortLine(t *testing.T) {
	for _, address := range []string{"", "s3cret", "http://u:s3cret@h", "Redis://h", "127.0.0.1:6379"} {
		_, err := Open(location.Options{URL: address})
		var bad *location.Error
		if !errors.As(err, &bad) || strings.Contains(bad.Problem+bad.Hint, "s3cret") {
			t.Errorf("%q: %v", address, err)
			continue
		}
		for _, f := range factories {
			if !strings.Contains(bad.Problem, f.Schemes[0]+":") || len(bad.Problem) > 140 || bad.Hint == "" {
				t.Errorf("%q: %s; %s", address, bad.Problem, bad.Hint)
			}
		}
	}
}

func TestRedact(t *testing.T) {
	for address, want := range map[string]string{
		"redis://h:6379/0":                                            "redis://h:6379/0",
		"redis://:s3cret@h:6379/0":                                    "redis://:***@h:6379/0",
		"rediss://u:s3%2Fcret@h?ca=/x.pem":                            "rediss://u:***@h?ca=/x.pem",
		"redis://u:file:%2Fetc%2Fpw@h":                                "redis://u:file:%2Fetc%2Fpw@h",
		"redis-sentinel://h,i:26379/m?sentinel_password=s3cret&ca=/x": "redis-sentinel://h,i:26379/m?sentinel_password=***&ca=/x",
		"postgres://u:s3cret@h/d?sslmode=require&password=s3cret":     "postgres://u:***@h/d?sslmode=require&password=***",
		"mysql://u:s3cret@h/d?tls=true":                               "mysql://u:***@h/d?tls=true",
		"file:/var/lib/leaderrun":                                     "file:/var/lib/leaderrun",
		"redis://u:s3cret%zz@h":                                       "redis://u:***@h",
		"redis://u:s3/cret@h":                                         "redis://…",
		"s3cret":                                                      "…",
		"u:s3cret@h":                                                  "…",
		"redis:s3cret@h:6379":                                         "…",
		"redis://s3cret@127.0.0.1:1":                                  "redis://***@127.0.0.1:1",
		"redis://s3cret:@h":                                           "redis://***@h",
		"redis://h?auth=s3cret&pass=s3cret&db=1":                      "redis://h?auth=***&pass=***&db=1",
		"redis://h?s3cret":                                            "redis://h?***",
		"redis://h#s3cret":                                            "redis://h#***",
		"redis://u:s3?cr=et@h":                                        "redis://…",
		"redis://u:s3#cret@h":                                         "redis://…",
		"redis://user:s3cret":                                         "redis://…",
		"redis-sentinel://[::1]:7,h:8/n":                              "redis-sentinel://[::1]:7,h:8/n",
		"etcd://s3cret@h":                                             "etcd://***@h",
		"mysql://u@h/d?password=s3cret":                               "mysql://u@h/d?password=***",
		"postgres://u@h/d?sslpassword=s3cret&sslmode=require":         "postgres://u@h/d?sslpassword=***&sslmode=require",
		"postgres://h/d?user=u&passwd=s3cret":                         "postgres://h/d?user=***&passwd=***",
		"s3://leases/jobs?endpoint=https://h:9000&region=r":           "s3://leases/jobs?endpoint=https://h:9000&region=r",
		"s3://AKIA:s3cret@leases?secret=s3cret":                       "s3://AKIA:***@leases?secret=***",
		"https://s3cret@h/ping?token=s3cret":                          "https://***@h/ping?token=***",
	} {
		if got := Redact(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
