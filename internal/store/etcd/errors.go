package etcd

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

var (
	errNoAnswer = errors.New("it answered something else than an etcd does")
	errMoved    = errors.New("another member is asked from now on")
)

// serverError is an error that a member, or a proxy in front of it, sent.
type serverError struct {
	status     int // 0 in a stream
	text       string
	structured bool // it had the form of etcd's errors
}

func (e *serverError) Error() string { return e.text }

// serverErrors are the errors of etcd by a part of their text. All versions have the same
// texts, but different codes. A permanent one stays until a person acts. elsewhere: another
// member may answer.
var serverErrors = []struct {
	part                 string
	permanent, elsewhere bool
	hint                 string
}{
	{part: "authentication failed", permanent: true, hint: "correct the user or the password in the store's URL"},
	{part: "user name is empty", permanent: true, hint: "give the store's URL a user: etcd://USER:PASSWORD@HOST; the gateway takes no user's name from a certificate"},
	{part: "user name not found", permanent: true, hint: "correct the user in the store's URL"},
	{part: "CommonName of client", permanent: true, hint: "give a client certificate without a common name (CN) with cert=FILE&key=FILE: an etcd with users takes no other through its gateway"},
	{part: "invalid auth token", hint: "see that all members have the same --auth-token"},
	{part: "permission denied", permanent: true, hint: hintRights},
	{part: "database space exceeded", hint: "compact and defragment it, then etcdctl alarm disarm: its --auto-compaction-retention prevents that"},
	{part: "no leader", elsewhere: true, hint: hintQuorum},
	{part: "request timed out", elsewhere: true, hint: hintQuorum},
	{part: "leader changed", elsewhere: true, hint: hintQuorum},
	{part: "server stopped", elsewhere: true, hint: hintQuorum},
	{part: "too many requests", elsewhere: true, hint: "see whether its disks are fast enough"},
	{part: "context deadline exceeded", elsewhere: true, hint: hintQuorum},
	{part: "connection", elsewhere: true, hint: hintQuorum}, // between the gateway and its own etcd
	{part: "not capable", elsewhere: true, hint: hintVersion},
	{part: "corrupt", permanent: true, hint: "look at its log"},
	{part: "Not Found", permanent: true, hint: hintVersion},
	{part: noGateway, permanent: true, elsewhere: true, hint: hintVersion},
}

// noGateway is what an etcd without a gateway answers, and every server in Go that does not
// know the path.
const noGateway = "404 page not found"

const (
	hintRights  = "give a role of the user in the store's URL that right: etcdctl role grant-permission ROLE --prefix readwrite PREFIX/"
	hintQuorum  = "see that most of its members run and reach each other: etcdctl endpoint status --cluster"
	hintVersion = "name an etcd of version 3.4 or later, with its gateway: --enable-grpc-gateway, or enable-grpc-gateway: true in the file of its --config-file"
	hintUsage   = "give its certificate (--cert-file) the extended key usage clientAuth, too: with --client-cert-auth its gateway uses it as a client"
	hintTLS     = "write etcd:// instead of etcds://, or let it speak TLS (--cert-file, --key-file)"
	hintKey     = "delete it with etcdctl del once no command of this key runs"
	hintOther   = "check that the store's URL names an etcd (etcds:// where it speaks TLS, etcd:// where it does not), and look at its log"
)

// words are those of etcd.
var words = network.Words{
	Server: "etcd", CA: "ca=FILE", Client: "cert=FILE&key=FILE", Name: "server_name=NAME", NoTLS: hintTLS, Other: hintOther,
}

// untrusted says that leaderrun cannot have written a key of etcd.
func untrusted(key string, err error) error {
	return &keep.Untrusted{Place: "its key " + key, Err: err}
}

// hasText reports whether err is an error of etcd with that text.
func hasText(err error, part string) bool {
	var answer *serverError
	return errors.As(err, &answer) && strings.Contains(answer.text, part)
}

// needsToken reports whether a new token may help: tokens expire, and end when users are
// changed.
func needsToken(err error) bool {
	return hasText(err, "invalid auth token") || hasText(err, "revision of auth store is old") || hasText(err, "user name is empty")
}

// elsewhere reports whether another member may answer.
func elsewhere(err error) bool {
	var answer *serverError
	var own *lease.StoreError
	switch {
	case err == nil, errors.As(err, &own), errors.As(err, new(*keep.Untrusted)), errors.Is(err, network.ErrNoDate), errors.Is(err, keep.ErrNotSaved):
		return false
	case !errors.As(err, &answer):
		return true
	}
	for _, a := range serverErrors {
		if strings.Contains(answer.text, a.part) {
			return a.elsewhere
		}
	}
	return answer.status >= http.StatusInternalServerError
}

func (c *client) storeError(ctx context.Context, op string, err error) *lease.StoreError {
	k, now := known(ctx, err), c.latest.Load()
	if k != nil && k.Hint == hintQuorum && strings.Contains(k.Text, "connection") && c.serverOnly.Load() && now.tls != nil && len(now.tls.Certificates) > 0 {
		k.Hint = hintUsage
	}
	return words.StoreError(ctx, op, "etcd at "+strings.Join(c.hosts, ","), err, k, &c.accepted, now.password)
}

// serverOnly reports whether a certificate may be used by servers, but not by clients.
func serverOnly(chain []*x509.Certificate) bool {
	if len(chain) == 0 || len(chain[0].ExtKeyUsage) == 0 {
		return false
	}
	return !slices.ContainsFunc(chain[0].ExtKeyUsage, func(u x509.ExtKeyUsage) bool {
		return u == x509.ExtKeyUsageClientAuth || u == x509.ExtKeyUsageAny
	})
}

// known returns what is known about an error that a member sent or this package found.
func known(ctx context.Context, err error) *network.Known {
	var answer *serverError
	switch {
	case errors.As(err, new(*keep.Untrusted)):
		return &network.Known{Text: err.Error(), Permanent: true, Hint: rules.Hint(err, hintKey)}
	case errors.Is(err, keep.ErrNotSaved):
		return &network.Known{Text: err.Error(), Hint: hintOther}
	case errors.As(err, &answer):
		return answer.problem()
	case errors.Is(err, errNoAnswer), errors.Is(err, io.ErrUnexpectedEOF) && ctx.Err() == nil:
		return &network.Known{Text: errNoAnswer.Error(), Hint: hintOther}
	case errors.Is(err, errMoved):
		return &network.Known{Text: err.Error()}
	}
	return nil
}

// problem returns the error's text and hint for people.
func (e *serverError) problem() *network.Known {
	k := &network.Known{Text: strings.TrimPrefix(e.text, "etcdserver: "), Hint: hintOther}
	if e.text == noGateway {
		k.Text = "it has no gateway: " + noGateway
	}
	k.Rights = strings.Contains(k.Text, "permission denied") || e.text == noGateway // or a proxy does not know it now
	k.Login = strings.Contains(k.Text, "authentication") || strings.Contains(k.Text, "user name") || strings.Contains(k.Text, "CommonName")
	for _, a := range serverErrors {
		if strings.Contains(e.text, a.part) {
			k.Permanent, k.Hint = a.permanent, a.hint
			return k
		}
	}
	if !e.structured {
		k.Text = fmt.Sprintf("%s (HTTP status %d)", errNoAnswer, e.status)
	}
	return k
}
