package kubernetes

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// access says how to reach the API server, and with which login.
type access struct {
	context   string // of the kubeconfig; "": a pod's service account
	server    string // https://HOST:PORT and perhaps a path
	namespace string
	token     string
	ca        []byte // PEM; nil: this host's CAs
	// cert and key are PEM, or nil.
	cert, key []byte
	name      string // in the server's certificate; "": the server's host
	insecure  bool
	plugin    *plugin // returns the login, instead of token, cert and key
	dir       string  // of the plugin
}

// account is the folder of a pod's service account.
const account = "/var/run/secrets/kubernetes.io/serviceaccount"

// find reads how to reach the API server: in a pod from its service account; elsewhere, or if
// the URL names a context, from the kubeconfig.
func (p place) find() (access, error) {
	if p.context == "" && p.host != "" {
		return p.inPod()
	}
	return p.fromKubeconfig()
}

func (p place) inPod() (access, error) {
	const hint = "give the pod a service account and its token: automountServiceAccountToken: true, see docs/kubernetes.md"
	a := access{server: "https://" + net.JoinHostPort(p.host, cmp.Or(p.port, "443")), namespace: p.namespace}
	read := func(name string) (text []byte, err error) {
		if text, err = os.ReadFile(filepath.Join(p.account, name)); err != nil {
			err = refusal("the pod's service account cannot be read: "+err.Error(), hint)
		}
		return text, err
	}
	token, err := read("token")
	if err != nil {
		return a, err
	}
	a.token = strings.TrimSpace(string(token))
	if a.ca, err = read("ca.crt"); err != nil {
		return a, err
	}
	if a.namespace == "" {
		namespace, err := read("namespace")
		if err != nil {
			return a, err
		}
		a.namespace = strings.TrimSpace(string(namespace))
	}
	return a, nil
}

// access returns the present access. Tokens and certificates may change while a command
// runs; if the files cannot be read, the last ones count. Server, context and namespace never
// change: otherwise a renewal would go to another lease, and other candidates could take
// this one.
func (s *Store) access() access {
	if a, err := s.where.find(); err == nil {
		a.server = s.latest.Load().server
		s.latest.Store(&a)
	}
	return *s.latest.Load()
}

// tls returns the TLS configuration for the next connection.
func (s *Store) tls(ctx context.Context) (*tls.Config, error) {
	a, err := s.who(ctx)
	if err != nil {
		return nil, err
	}
	return a.config()
}

func (a access) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: a.name, InsecureSkipVerify: a.insecure}
	if a.ca != nil {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(a.ca) {
			return nil, refusal("the certificate of the cluster's CA is not in PEM form", "correct certificate-authority in the kubeconfig")
		}
	}
	if a.cert != nil {
		pair, err := tls.X509KeyPair(a.cert, a.key)
		if err != nil {
			return nil, refusal("the client certificate or its key cannot be used: "+err.Error(), "correct client-certificate and client-key in the kubeconfig")
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
