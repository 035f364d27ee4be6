package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

var (
	errNoAnswer = errors.New("it answered something else than a Kubernetes API server does")
	errNoDate   = errors.New("its answer has no Date")
	errStubborn = errors.New("it reports a conflict where nobody has changed anything")
)

// serverError is what the API server, or what stands before it, said instead of an
// answer.
type serverError struct {
	status int
	text   string
	spoken bool // in the form in which Kubernetes says it
	// allowed: such a request was allowed before. An API server that has just started may
	// not have read all roles yet, and refuses what they allow (kubernetes issue 121635).
	allowed bool
}

func (e *serverError) Error() string { return e.text }

const (
	hintRights  = "it needs the verbs get, create, update and watch on leases of coordination.k8s.io, and list for the keys: deploy/kubernetes/lease has a role"
	hintLogin   = "see whether the token or the certificate is still valid, and whose it is: kubectl auth whoami"
	hintOther   = "check what the address names, and what stands before it: kubectl get --raw /version"
	hintDate    = "check what stands between this host and the API server, which sends one"
	hintBusy    = "see how the API server and its etcd are: kubectl get --raw /readyz"
	hintMissing = "see whether the namespace is there (kubectl get namespace), and the API (kubectl api-versions has coordination.k8s.io/v1)"
	hintObject  = "kubectl delete lease %s, once no command of this key runs"
)

// words are those of a kubeconfig.
var words = network.Words{
	Server: "Kubernetes API server", CA: "certificate-authority", Client: "client-certificate", Name: "tls-server-name", Place: "the kubeconfig", NoTLS: hintOther, Other: hintOther,
}

// untrusted is an object that leaderrun did not write as it is.
type untrusted struct {
	name string
	err  error
}

func (u untrusted) Error() string {
	return fmt.Sprintf("the annotation %s of the lease %s cannot be trusted: %v", stateAnnotation, u.name, u.err)
}

func (u untrusted) Unwrap() error { return u.err }

// problem words what was said.
func (e *serverError) problem() (text string, permanent bool, hint string) {
	if e.status == http.StatusTooManyRequests { // in any form
		return "it has too many requests", false, hintBusy
	}
	if !e.spoken {
		return fmt.Sprintf("%s (HTTP status %d)", errNoAnswer, e.status), false, hintOther
	}
	switch e.status {
	case http.StatusUnauthorized:
		return "it does not know who asks: " + e.text, true, hintLogin
	case http.StatusForbidden:
		return e.text, !e.allowed, hintRights
	case http.StatusNotFound:
		return e.text, true, hintMissing
	case http.StatusUnprocessableEntity, http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		return e.text, true, hintOther
	}
	return e.text, false, hintBusy
}

// storeError says in one line what a person needs to know of err, which is anything that
// the network or the server can come up with.
func (s *Store) storeError(ctx context.Context, op string, err error) error {
	e := &lease.StoreError{Op: op}
	text, login := "", false // what is said of a token or a certificate
	var unreadable *lease.StoreError
	var said *serverError
	var bad untrusted
	switch {
	case errors.As(err, &unreadable): // what the kubeconfig's plugin says, or a certificate
		text, e.Permanent, e.Hint, login = unreadable.Err.Error(), unreadable.Permanent, unreadable.Hint, true
	case errors.As(err, &bad):
		text, e.Permanent, e.Hint = err.Error(), true, leasestate.Hint(err, fmt.Sprintf(hintObject, bad.name))
	case errors.As(err, &said):
		text, e.Permanent, e.Hint = said.problem()
		login = said.status == http.StatusUnauthorized
	case errors.Is(err, errNoAnswer):
		text, e.Hint = errNoAnswer.Error(), hintOther
	case errors.Is(err, errStubborn):
		text, e.Hint = err.Error(), hintOther
	case errors.Is(err, errNoDate):
		text, e.Permanent, e.Hint = err.Error(), true, hintDate
	case errors.Is(ctx.Err(), context.Canceled):
		text = "given up before an answer came"
	default:
		if text, e.Permanent, e.Hint = words.HandshakeProblem(err); text == "" {
			text, e.Refused, e.Hint = words.Problem(ctx, err)
		}
		login = e.Permanent
	}
	if login && s.accepted.Load() { // it is being changed, there or here
		e.Permanent = false
	}
	e.Err = fmt.Errorf("Kubernetes%s: %s", s.at(), lease.Readable(text)) //nolint:staticcheck // it is a name
	return e
}

// at is where the API server is.
func (s *Store) at() string {
	u, err := url.Parse(s.latest.Load().server)
	if err != nil {
		return ""
	}
	return " at " + u.Host
}
