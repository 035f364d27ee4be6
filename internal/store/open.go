// Package store finds the package that serves an address. To add a store, make a folder here
// and add a line to factories.
//
// Promise: no error shows any part of an address that may be a password. It asks no server.
package store

import (
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/store/etcd"
	"github.com/leaderrun/leaderrun/internal/store/file"
	"github.com/leaderrun/leaderrun/internal/store/kubernetes"
	"github.com/leaderrun/leaderrun/internal/store/location"
	"github.com/leaderrun/leaderrun/internal/store/mysql"
	"github.com/leaderrun/leaderrun/internal/store/postgres"
	"github.com/leaderrun/leaderrun/internal/store/redis"
	"github.com/leaderrun/leaderrun/internal/store/s3"
)

var factories = []location.Factory{
	redis.Factory,
	postgres.Factory,
	mysql.Factory,
	etcd.Factory,
	kubernetes.Factory,
	s3.Factory,
	file.Factory,
}

// Default is the address of the store if none is named.
const Default = redis.Default

// Open returns the store of an address, and asks no server yet. If no store has the
// address's scheme, the error is a *location.Error, else it is that of Factory.Open.
func Open(o location.Options) (location.Store, error) {
	if f := factory(o.URL); f != nil {
		s, err := f.Open(o)
		return s, location.HintPasswordFile(o.URL, err)
	}
	return nil, unknownScheme(o.URL)
}

// unknownScheme is one short line. What is no URL may be a password: it is not shown.
func unknownScheme(url string) error {
	var begin []string
	for _, f := range factories {
		before := f.Schemes[0] + ":"
		if strings.HasPrefix(f.Form, before+"//") {
			before += "//"
		}
		begin = append(begin, before)
	}
	e := &location.Error{Problem: "the store's address must begin with " + list(begin, ""), Hint: "write it as docs/settings.md shows"}
	if scheme, _, ok := strings.Cut(url, "://"); ok {
		e.Problem += ", not with " + scheme + "://"
	}
	return e
}

// Usage shows people how addresses are written.
func Usage() string {
	var forms, others []string // others: schemes that the forms do not show
	for _, f := range factories {
		forms, others = append(forms, f.Form), append(others, f.Schemes[1:]...)
	}
	return list(forms, "") + "; also " + list(others, ":")
}

// list joins words with commas and an "or", and adds end to each word.
func list(words []string, end string) string {
	last := len(words) - 1
	return strings.Join(words[:last], end+", ") + end + " or " + words[last] + end
}

// Shortest returns the shortest TTL of the store at an address; 0 means any.
func Shortest(url string) time.Duration {
	if f := factory(url); f != nil {
		return f.Shortest
	}
	return 0
}

// Redact returns an address without its passwords.
func Redact(url string) string {
	if f := factory(url); f != nil {
		return f.Redact(url)
	}
	return location.Redact(url)
}

// FromEnvironment returns the first store that is named by variables of other programs.
func FromEnvironment(environ []string) (location.Found, error) {
	for _, f := range factories {
		if f.FromEnvironment == nil {
			continue
		}
		if found, err := f.FromEnvironment(environ); err != nil || found.Values != nil {
			return found, err
		}
	}
	return location.Found{}, nil
}

func factory(url string) *location.Factory {
	scheme, _, ok := strings.Cut(url, ":")
	i := slices.IndexFunc(factories, func(f location.Factory) bool { return slices.Contains(f.Schemes, scheme) })
	if !ok || i < 0 {
		return nil
	}
	return &factories[i]
}
