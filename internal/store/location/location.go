// Package location holds what the addresses of all stores have in common: how a
// store package makes itself known, how an address is shown without its
// passwords, and passwords that are kept in files.
//
// It knows no store's own form of address: that is the store's. Package store has
// the list of stores; settings and cmd go through it.
package location

import (
	"crypto/tls"
	"strconv"
	"strings"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// Store is what every technology offers.
type Store interface {
	lease.Store
	lease.Admin
}

// Factory is what a store package says of itself.
type Factory struct {
	// Schemes are what the store's addresses begin with, up to the first colon.
	Schemes []string
	// Form shows people how an address with the first of the schemes is written.
	Form string
	// Open makes the store and asks nothing yet. An error is a *lease.StoreError,
	// permanent where the address is no good, and shows no password.
	Open func(address string, o Options) (Store, error)
	// Redact returns an address without its passwords.
	Redact func(address string) string
	// FromEnvironment finds the store that variables name which other programs
	// know, too. The error is an *Error. Nil: there are none.
	FromEnvironment func(environ []string) (Found, error)
}

// Options are what a store is opened with besides its address.
type Options struct {
	// Prefix starts the names of all keys.
	Prefix string
	// MustExist is set where the store is only read: what is missing is not made.
	MustExist bool
	// Warn reports what works and is dangerous, and what to do about it.
	Warn func(problem, hint string)
}

// WarnIfInsecure warns of a URL whose TLS takes any certificate.
func (o Options) WarnIfInsecure(c *tls.Config) {
	if c != nil && c.InsecureSkipVerify {
		o.Warn("insecure=true: anybody on the way to the store can pose as it", "give the file of the CA's certificate with ca=FILE instead")
	}
}

// Found is what a set of variables says: settings by name, and the variable that
// stands for each, also for one that was not set. Its zero value says nothing.
type Found struct {
	Values, Variables map[string]string
}

// Error is an address, or a part of one, that cannot be used.
type Error struct {
	// Variable and its Value are empty where Problem names what it is about.
	Variable, Value string
	// Problem says what is wrong, Hint what to do about it.
	Problem, Hint string
}

func (e *Error) Error() string {
	if e.Variable == "" {
		return e.Problem
	}
	return e.Variable + ": " + e.Problem
}

// Redact replaces the passwords in a URL by ***: the user's, and those among its
// parameters. The path of a file that holds one is kept. What is no URL is not
// shown at all.
func Redact(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return "…" // it may be anything, a password too
	}
	end := strings.IndexAny(rest+"/", "/?#")
	authority, path := rest[:end], rest[end:]
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		if user, password, ok := strings.Cut(authority[:at], ":"); ok {
			authority = user + ":" + masked(password) + authority[at:]
		}
	}
	path, query, isQuery := strings.Cut(path, "?")
	parameters := strings.Split(query, "&")
	for i, p := range parameters {
		if name, password, ok := strings.Cut(p, "="); ok && strings.HasSuffix(name, "password") {
			parameters[i] = name + "=" + masked(password)
		}
	}
	if isQuery {
		path += "?" + strings.Join(parameters, "&")
	}
	if strings.Contains(path, "@") { // a password that is not escaped looks like a path
		return scheme + "://…"
	}
	return scheme + "://" + authority + path
}

func masked(password string) string {
	if strings.HasPrefix(password, filePrefix) {
		return password
	}
	return "***"
}

// IsKubernetes reports whether a variable is one of those that Kubernetes sets for
// every service of the namespace: a service that is called redis or leaderrun must
// not change any setting.
func IsKubernetes(name, value string) bool {
	if strings.HasSuffix(name, "_SERVICE_HOST") || strings.HasSuffix(name, "_SERVICE_PORT") || strings.Contains(name, "_SERVICE_PORT_") {
		return true
	}
	if strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://") {
		return true
	}
	_, rest, _ := strings.Cut(name, "_PORT_")
	digits, protocol, _ := strings.Cut(rest, "_")
	if _, err := strconv.ParseUint(digits, 10, 16); err != nil {
		return false
	}
	protocol, _, _ = strings.Cut(protocol, "_")
	return protocol == "TCP" || protocol == "UDP" || protocol == "SCTP"
}
