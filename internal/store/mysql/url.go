package mysql

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
	urlForm    = "write mysql://USER:PASSWORD@HOST[:PORT]/DATABASE"
	encodeThem = "in users and passwords percent-encode all but A-Z a-z 0-9 . _ ~ -, in paths all but these and /"
)

// Factory is what package store knows of this one. An address may name files: of a
// password, as file:PATH in its place, and those of TLS.
var Factory = location.Factory{
	Schemes: []string{"mysql"},
	Form:    "mysql://USER:PASSWORD@HOST[:PORT]/DATABASE",
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
	t := s.conns.latest.Load()
	return t.tls != nil && t.tls.InsecureSkipVerify
}

// parameters are those that an address may have. Each of them asks for TLS.
var parameters = append([]string{"tls"}, network.TLSParameters...)

// target is what an address says.
type target struct {
	addr, database string
	user, password string
	tls            *tls.Config // nil: none
}

func refusal(problem, hint string) error {
	return &lease.StoreError{Op: "mysql store", Err: errors.New(problem), Permanent: true, Hint: hint}
}

// parseURL reads the URL of a store, and the files that it names. A URL that is cut
// at the wrong place, for instance because of a '#' in the password, shows parts of
// the password as host, port, path or parameter: so no error repeats any of them.
func parseURL(text string) (*target, error) {
	if !strings.HasPrefix(text, "mysql://") {
		return nil, refusal(`the URL must begin with "mysql://"`, urlForm)
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, refusal("the URL cannot be read", urlForm+", and "+encodeThem)
	}
	t := &target{user: u.User.Username(), database: strings.TrimPrefix(u.Path, "/")}
	port := cmp.Or(u.Port(), "3306")
	t.addr = net.JoinHostPort(u.Hostname(), port)
	switch n, err := strconv.ParseUint(port, 10, 16); {
	case u.Hostname() == "":
		return nil, refusal("the URL names no host", urlForm)
	case strings.ContainsAny(u.Hostname(), ",[]"):
		return nil, refusal("the URL names no host, or more than one", urlForm)
	case err != nil || n == 0:
		return nil, refusal("the port in the URL is not a number from 1 to 65535", urlForm)
	case t.user == "":
		return nil, refusal("the URL names no user", urlForm)
	case t.database == "":
		return nil, refusal("the URL names no database", urlForm)
	case strings.Contains(t.database, "/"), u.Fragment != "":
		return nil, refusal("the path of the URL is not the name of a database", urlForm+", and "+encodeThem)
	case strings.ContainsRune(t.user+t.database, 0): // they end there
		return nil, refusal("the URL has a NUL character, %00, in the user or the database", urlForm)
	}
	password, _ := u.User.Password()
	var problem *location.Error
	if t.password, problem = location.Password(password); problem != nil {
		return nil, refusal(problem.Problem, problem.Hint)
	}
	return t, t.readParameters(u)
}

// readParameters reads those of TLS, each once at the most.
func (t *target) readParameters(u *url.URL) error {
	// In a URL a plus is a plus; package url reads it as a browser's form, as a space.
	values, err := url.ParseQuery(strings.ReplaceAll(u.RawQuery, "+", "%2B"))
	if err != nil {
		return refusal("the parameters of the URL cannot be read", encodeThem)
	}
	for name, value := range values {
		switch {
		case !slices.Contains(parameters, name):
			return refusal("the URL has a parameter that it cannot have", "it can have "+strings.Join(parameters, ", ")+"; a ? in a password is %3F")
		case len(value) > 1 || value[0] == "":
			return refusal("the parameter "+name+" of the URL is empty or given twice", "give it one value")
		case name == "tls" && value[0] != "true":
			return refusal("the parameter tls of the URL is not true", "write tls=true, or leave all parameters out for a connection without TLS")
		}
	}
	if len(values) == 0 {
		return nil
	}
	var text, hint string
	if t.tls, text, hint = network.TLSConfig(values); text != "" {
		return refusal(text, hint)
	}
	return nil
}
