// Package location holds what the addresses of all stores have in common: the [Factory] by
// which a store makes itself known, parsing, TLS, passwords in files, and hiding passwords.
//
// Promise: no error repeats any part of an address that may be a password. Not promised: it
// knows the address of no particular store; each store parses its own. Package store has the
// list of stores; settings and cmd go through it.
package location

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// Store is what every store offers.
type Store interface {
	lease.Store
	lease.Admin
}

// Factory describes a store and opens it.
type Factory struct {
	// Schemes are the beginnings of the store's addresses, up to the first colon.
	Schemes []string
	// Form shows people how an address with the first scheme is written.
	Form string
	// Shortest is the shortest TTL, where renewals are dear; 0 means any.
	Shortest time.Duration
	// Open returns the store, and asks no server yet. An error is a *lease.StoreError,
	// permanent if the address is wrong, and shows no password.
	Open func(Options) (Store, error)
	// Redact returns an address without its passwords.
	Redact func(address string) string
	// FromEnvironment returns the store that variables of other programs name. The error
	// is an *Error. Nil if this store has no such variables.
	FromEnvironment func(environ []string) (Found, error)
}

// Options are what a store is opened with.
type Options struct {
	URL string
	// Prefix begins the names of all keys.
	Prefix string
	// MustExist is set if the store is only read: Open creates nothing.
	MustExist bool
	// Warn reports something that works but is dangerous, and what to do about it; nil: it is not told.
	Warn func(problem, hint string)
	// Dialer opens connections; nil means TCP. Only tests set it.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)
}

// WarnIf warns if TLS accepts any certificate: insecure says by which setting, hint what to do.
func (o Options) WarnIf(accepts bool, insecure, hint string) {
	if accepts && o.Warn != nil {
		o.Warn(insecure+": anybody on the way to the store can pose as it", hint)
	}
}

// WarnIfInsecure warns if the parameters of TLS accept any certificate.
func (o Options) WarnIfInsecure(c *tls.Config) {
	o.WarnIf(c != nil && c.InsecureSkipVerify, "insecure=true", "give the file of the CA's certificate with ca=FILE instead")
}

// Found is what variables say: Values are settings by their names. Variables are the variables of
// these settings, and of the parts of the address (host, port, user, password, database), including
// those that are not set. The zero value is no store.
type Found struct {
	Values, Variables map[string]string
}

// Error says that an address, or a part of one, cannot be used.
type Error struct {
	// Variable and its Value are empty if Problem already names what is wrong.
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

// IsKubernetes reports whether a variable is one that Kubernetes sets for every service of
// the namespace. A service with the name redis or leaderrun must not change any setting.
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
