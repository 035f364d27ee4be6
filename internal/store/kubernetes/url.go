package kubernetes

import (
	"net/url"
	"strings"

	"github.com/leaderrun/leaderrun/internal/store/location"
)

const (
	scheme  = "kubernetes"
	urlForm = "kubernetes:[//[CONTEXT/]NAMESPACE]"
)

// Factory opens this store by its address, which has no password.
var Factory = location.Factory{
	Schemes:  []string{scheme},
	Form:     scheme + ":",
	Shortest: shortest,
	Open:     func(o location.Options) (location.Store, error) { return New(o) },
	Redact:   func(url string) string { return url },
}

// place is the content of a URL, and the relevant environment.
type place struct {
	context   string // of the kubeconfig; "": the current one, or this pod's service account
	namespace string // "": that of the context or the pod

	host, port string   // of the API server, if this is a pod
	account    string   // the folder of the service account
	files      []string // kubeconfigs; none means the usual one
}

var refusal = location.Kind("kubernetes store").Refusal

func parseURL(text string) (place, error) {
	rest, ok := strings.CutPrefix(text, scheme+":")
	if !ok {
		return place{}, refusal(`the address must begin with "kubernetes:"`, "write "+urlForm)
	}
	if rest == "" {
		return place{}, nil
	}
	rest, ok = strings.CutPrefix(rest, "//")
	if !ok {
		return place{}, refusal("the address has no // before the namespace", "write "+urlForm)
	}
	at := strings.LastIndexByte(rest, '/')
	p := place{namespace: rest[at+1:]}
	if !isLabel(p.namespace) || len(p.namespace) > 63 {
		return place{}, refusal("the address does not end with the name of a namespace", "write "+urlForm)
	}
	if at < 0 {
		return p, nil
	}
	var err error
	if p.context, err = url.PathUnescape(rest[:at]); err != nil || p.context == "" {
		return place{}, refusal("the context in the address cannot be read", "write "+urlForm+", with %25 for a % in the context")
	}
	return p, nil
}
