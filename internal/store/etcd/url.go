package etcd

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/location"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

const (
	hostForm   = "[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]]"
	encodeThem = "in users and passwords percent-encode all but A-Z a-z 0-9 . _ ~ -, in paths all but these and /"
)

var schemes = []string{"etcd", "etcds"} // without TLS, with TLS

// Factory is what package store knows of this one. An address may name files: of a
// password, as file:PATH in its place, and those of TLS.
var Factory = location.Factory{
	Schemes: schemes,
	Form:    "etcd://[USER:PASSWORD@]HOST[:PORT]",
	Open: func(url string, o location.Options) (location.Store, error) {
		s, err := New(Options{URL: url, Prefix: o.Prefix})
		if err == nil && s.insecure() {
			o.Warn("insecure=true: whoever is on the way to the store can pose as it", "give the file of the CA's certificate with ca=FILE instead")
		}
		return s, err
	},
	Redact: location.Redact,
}

func (s *Store) insecure() bool {
	t := s.client.latest.Load()
	return t.tls != nil && t.tls.InsecureSkipVerify
}

// target is what a URL says.
type target struct {
	hosts          []string // with their ports
	user, password string
	tls            *tls.Config // nil: none
}

func refusal(problem, hint string) error {
	return &lease.StoreError{Op: "etcd store", Err: errors.New(problem), Permanent: true, Hint: hint}
}

// parseURL reads the URL of a store, and the files that it names. A URL that is cut
// at the wrong place, for instance because of a '#' in the password, shows parts of
// the password as host, port, path or parameter: so no error repeats any of them.
func parseURL(text string) (*target, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || !slices.Contains(schemes, scheme) {
		return nil, refusal(`the URL must begin with "etcd://" or "etcds://"`, "write etcd://"+hostForm)
	}
	form := "write " + scheme + "://" + hostForm
	// Package url reads one host only.
	end := strings.IndexAny(rest+"/", "/?#")
	authority, path := rest[:end], rest[end:]
	at := strings.LastIndexByte(authority, '@') + 1
	u, err := url.Parse("etcd://" + authority[:at] + "host" + path)
	if err != nil {
		return nil, refusal("the URL cannot be read", form+", and "+encodeThem)
	}
	if u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return nil, refusal("the URL has a path, and etcd knows none", form+"; a / or # in a password is %2F or %23")
	}
	t := &target{}
	for host := range strings.SplitSeq(authority[at:], ",") {
		addr, err := address(host, form)
		if err != nil {
			return nil, err
		}
		t.hosts = append(t.hosts, addr)
	}
	if err := t.readUser(u.User); err != nil {
		return nil, err
	}
	return t, t.readParameters(scheme, form, u)
}

func address(host, form string) (string, error) {
	const defaultPort = "2379"
	u, err := url.Parse("etcd://" + host)
	if err != nil || strings.ContainsAny(u.Hostname(), "[]") { // package url lets a lone bracket pass
		return "", refusal("a host in the URL cannot be read", form)
	}
	name, port := u.Hostname(), cmp.Or(u.Port(), defaultPort)
	if name == "" {
		return "", refusal("the URL names no host", form)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", refusal("the port in the URL is not a number from 1 to 65535", form)
	}
	return net.JoinHostPort(name, port), nil
}

func (t *target) readUser(u *url.Userinfo) error {
	password, _ := u.Password()
	t.user = u.Username()
	if u != nil && (t.user == "" || password == "") {
		return refusal("the URL has a user without a password, or a password without a user", "write etcd://USER:PASSWORD@HOST")
	}
	var problem *location.Error
	if t.password, problem = location.Password(password); problem != nil {
		return refusal(problem.Problem, problem.Hint)
	}
	return nil
}

// readParameters reads those of TLS, each once at the most.
func (t *target) readParameters(scheme, form string, u *url.URL) error {
	if scheme == "etcd" {
		if u.RawQuery != "" || u.ForceQuery {
			return refusal("the URL takes no parameters", form+", or etcds:// for TLS; a ? in a password is %3F")
		}
		return nil
	}
	// In a URL a plus is a plus; package url reads it as a browser's form, as a space.
	values, err := url.ParseQuery(strings.ReplaceAll(u.RawQuery, "+", "%2B"))
	if err != nil {
		return refusal("the parameters of the URL cannot be read", encodeThem)
	}
	for name, value := range values {
		switch {
		case !slices.Contains(network.TLSParameters, name):
			return refusal("the URL has a parameter that its scheme does not know", "it knows "+strings.Join(network.TLSParameters, ", ")+"; a ? in a password is %3F")
		case len(value) > 1 || value[0] == "":
			return refusal("the parameter "+name+" of the URL is empty or given twice", "give it one value")
		}
	}
	var problem, hint string
	if t.tls, problem, hint = network.TLSConfig(values); problem != "" {
		return refusal(problem, hint)
	}
	return nil
}
