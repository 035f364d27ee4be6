package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

var errNoAnswer = errors.New("it answered something else than a Kubernetes API server does")

// serverError is an error that the API server, or a proxy in front of it, sent.
type serverError struct {
	status     int
	text       string
	structured bool // it was a Status of Kubernetes
	// allowed: a request of the same kind was allowed before. An API server that has just
	// started may not know all roles yet, and forbid what they allow (kubernetes issue 121635).
	allowed bool
}

func (e *serverError) Error() string { return e.text }

const (
	hintRights    = "it needs the verbs get, create, update and watch on leases of coordination.k8s.io: deploy/kubernetes/lease has a role"
	hintAdmission = "a rule of the cluster does not admit it: look at the namespace and its quotas (kubectl describe namespace), and at the cluster's policies"
	hintList      = "to list the keys it needs the verb list on leases of coordination.k8s.io, too; status --key KEY does without"
	hintLogin     = "see whether the token or the certificate is still valid, and whose it is: kubectl auth whoami"
	hintOther     = "check what the address names, and what stands before it: kubectl get --raw /version"
	hintBusy      = "see how the API server and its etcd are: kubectl get --raw /readyz"
	hintMissing   = "see whether the namespace is there (kubectl get namespace), and the API (kubectl api-versions has coordination.k8s.io/v1)"
	hintObject    = "delete it with kubectl delete lease once no command of this key runs"
)

// words are those of a kubeconfig.
var words = network.Words{
	Server: "Kubernetes API server", CA: "certificate-authority", Client: "client-certificate", Name: "tls-server-name", Place: "the kubeconfig", NoTLS: hintOther, Other: hintOther,
}

// untrusted says that leaderrun cannot have written an object's state.
func untrusted(name string, err error) error {
	return &keep.Untrusted{Place: fmt.Sprintf("the annotation %s of the lease %s", stateAnnotation, name), Err: err}
}

// problem returns the error's text and hint for people.
func (e *serverError) problem() (text string, permanent bool, hint string) {
	if e.status == http.StatusTooManyRequests { // structured or not
		return "it has too many requests", false, hintBusy
	}
	if !e.structured {
		hint := hintOther
		if e.status == http.StatusGatewayTimeout { // an API server whose etcd hangs, or a proxy before it
			hint = hintBusy
		}
		return fmt.Sprintf("%s (HTTP status %d)", errNoAnswer, e.status), false, hint
	}
	status := e.status
	if e.byRule() { // a ValidatingAdmissionPolicy answers 422, unless it has another reason
		status = http.StatusForbidden
	}
	switch status {
	case http.StatusUnauthorized:
		return "it does not know who asks: " + e.text, true, hintLogin
	case http.StatusForbidden:
		text, hint := strings.ToLower(e.text), hintRights
		passing := strings.Contains(text, "quota") || strings.Contains(text, "not yet ready")
		if passing || e.byRule() {
			hint = hintAdmission
		}
		return e.text, !e.allowed && !passing, hint
	case http.StatusNotFound:
		return e.text, true, hintMissing
	case http.StatusUnprocessableEntity, http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		return e.text, true, hintOther
	}
	return e.text, false, hintBusy
}

// byRule reports whether a rule of admission refused a request, and not the want of a role.
func (e *serverError) byRule() bool {
	return strings.Contains(e.text, "is forbidden: ") && !strings.Contains(e.text, " cannot ")
}

func (s *Store) storeError(ctx context.Context, op string, err error) *lease.StoreError {
	k := known(err)
	if op == listing && k != nil && k.Hint == hintRights {
		k.Hint = hintList
	}
	return words.StoreError(ctx, op, "Kubernetes"+s.at(), err, k, &s.accepted)
}

// known returns what is known about an error that the API server sent or this package found.
func known(err error) *network.Known {
	var said *serverError
	switch {
	case errors.As(err, new(*keep.Untrusted)):
		return &network.Known{Text: err.Error(), Permanent: true, Hint: rules.Hint(err, hintObject)}
	case errors.As(err, &said):
		k := &network.Known{Login: said.status == http.StatusUnauthorized}
		k.Text, k.Permanent, k.Hint = said.problem()
		return k
	case errors.Is(err, errNoAnswer):
		return &network.Known{Text: errNoAnswer.Error(), Hint: hintOther}
	case errors.Is(err, keep.ErrNotSaved):
		return &network.Known{Text: err.Error(), Hint: hintOther}
	}
	return nil
}

// at returns the address of the API server, for messages.
func (s *Store) at() string {
	u, err := url.Parse(s.latest.Load().server)
	if err != nil {
		return ""
	}
	return " at " + u.Host
}
