//go:build linux

package kubernetes

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

const prefix = "leaderrun"

// backend is an API server under test, with a second client that reads and damages its data.
type backend struct {
	*script.APIServer
	http *http.Client
}

func newBackend(t *testing.T) backend {
	t.Helper()
	s := script.StartAPIServer(t)
	ca := must.Read(t, s.Certs.File("ca.pem"))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(ca))
	return backend{s, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}}
}

func (b backend) open(t *testing.T) *Store {
	t.Helper()
	return b.openWith(t, Options{})
}

// openWith opens a store as the user who has the documented rights.
func (b backend) openWith(t *testing.T, o Options) *Store {
	t.Helper()
	return openAs(t, b.Kubeconfig("leaderrun"), o)
}

// openAs opens a store with a kubeconfig, which it reads again later.
func openAs(t *testing.T, kubeconfig string, o Options) *Store {
	t.Helper()
	o.Prefix = prefix
	s, err := open(o, place{files: []string{kubeconfig}})
	return networktest.Opened(t, s, err)
}

// Helpers that the tests of all networked stores use.
var (
	request, grant, renew, denied = networktest.Request, networktest.Grant, networktest.Renew, networktest.Denied
	bounded, awaits, endOf        = networktest.Bounded, must.Await, networktest.EndOf
)

// ask sends a request as a user with all rights.
func (b backend) ask(t *testing.T, method, name string, body any) (status int, answer map[string]any) {
	t.Helper()
	text, err := json.Marshal(body)
	must.Succeed(t, err)
	url := "https://" + b.Addr + "/apis/coordination.k8s.io/v1/namespaces/jobs/leases"
	if name != "" {
		url += "/" + name
	}
	r, err := http.NewRequestWithContext(bounded(t), method, url, bytes.NewReader(text))
	must.Succeed(t, err)
	r.Header.Set("Authorization", "Bearer admin")
	if method == http.MethodGet && name == "" { // lists all, like kubectl
		r.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	}
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := b.http.Do(r)
	must.Succeed(t, err)
	defer resp.Body.Close()
	text, err = io.ReadAll(resp.Body)
	must.Succeed(t, err)
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("%s: %s", resp.Status, text)
	}
	return resp.StatusCode, answer
}

// lease returns the object of a key.
func (b backend) lease(t *testing.T, key string) map[string]any {
	t.Helper()
	status, o := b.ask(t, "GET", objectName(prefix, key), nil)
	if status != http.StatusOK {
		t.Fatalf("%d: %v", status, o)
	}
	return o
}

// put changes or creates the object of a key.
func (b backend) put(t *testing.T, key string, change map[string]any) {
	t.Helper()
	name := objectName(prefix, key)
	status, o := b.ask(t, "PATCH", name, change)
	if status == http.StatusNotFound {
		whole := map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": change["spec"]}
		metadata, _ := change["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
		}
		metadata["name"] = name
		whole["metadata"] = metadata
		status, o = b.ask(t, "POST", "", whole)
	}
	if status != http.StatusOK && status != http.StatusCreated {
		t.Fatalf("%d: %v", status, o)
	}
}

// wipe deletes all objects.
func (b backend) wipe(t *testing.T) {
	t.Helper()
	if status, o := b.ask(t, "DELETE", "", nil); status != http.StatusOK {
		t.Fatalf("%d: %v", status, o)
	}
}
