//go:build linux

package kubernetes

import (
	"context"
	"encoding/base64"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// In a pod the service account is used. Its token and CA may change while a command runs.
func TestServiceAccount(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	ca := must.Read(t, b.Certs.File("ca.pem"))
	dir := t.TempDir()
	write(t, dir, "token", "leaderrun\n")
	write(t, dir, "ca.crt", ca)
	write(t, dir, "namespace", "jobs")
	pod := place{account: dir, files: []string{"/does/not/exist"}}
	pod.host, pod.port, _ = net.SplitHostPort(b.Addr)
	s, err := open(Options{Prefix: prefix}, pod)
	must.Succeed(t, err)
	defer s.Close()
	l := grant(t, s, request("k"))
	b.lease(t, "k") // it is in the pod's namespace
	write(t, dir, "token", "not any more")
	networktest.WantError(t, networktest.NotRenewed(t, s, l), false, "", "kubectl auth whoami") // a token that was accepted before
	write(t, dir, "token", "client")
	renew(t, s, l) // with the next token
	must.Succeed(t, os.Remove(filepath.Join(dir, "token")))
	if _, err := open(Options{Prefix: prefix}, pod); err == nil || !strings.Contains(err.Error(), "service account") {
		t.Errorf("no token: %v", err)
	}
}

// What a kubeconfig can say for a client of plain HTTP.
func TestKubeconfig(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	encoded := func(name string) string {
		text := must.Read(t, b.Certs.File(name))
		return base64.StdEncoding.EncodeToString([]byte(text))
	}
	dir := t.TempDir()
	write(t, dir, "secret", "leaderrun")
	for name, c := range map[string]struct{ cluster, user, context string }{
		"a token":                {cluster: "certificate-authority: " + b.Certs.File("ca.pem"), user: "token: leaderrun"},
		"a token in a file":      {cluster: "certificate-authority-data: " + encoded("ca.pem"), user: "tokenFile: secret, token: wrong"},
		"a certificate":          {cluster: "certificate-authority-data: " + encoded("ca.pem"), user: "client-certificate: " + b.Certs.File("client.pem") + ", client-key: " + b.Certs.File("client.key")},
		"a certificate as data":  {cluster: "certificate-authority-data: " + encoded("ca.pem"), user: "client-certificate-data: " + encoded("client.pem") + ", client-key-data: " + encoded("client.key")},
		"another name":           {cluster: "tls-server-name: localhost, certificate-authority: " + b.Certs.File("ca.pem"), user: "token: leaderrun"},
		"no check of the server": {cluster: "insecure-skip-tls-verify: true", user: "token: leaderrun"},
		"a context by its name":  {cluster: "insecure-skip-tls-verify: true", user: "token: leaderrun", context: "this@one"},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, dir, strings.ReplaceAll(name, " ", "-"), `
current-context: `+map[bool]string{true: "this@one", false: "gone"}[c.context == ""]+`
contexts: [{name: this@one, context: {cluster: c, user: u, namespace: jobs}}, {name: other, context: {cluster: x, user: y}}]
clusters: [{name: c, cluster: {server: "https://`+b.Addr+`/", `+c.cluster+`}}]
users: [{name: y, user: {exec: {command: no}}}, {name: u, user: {`+c.user+`}}]
`)
			s, err := open(Options{Prefix: prefix}, place{context: c.context, files: []string{"/does/not/exist", file}})
			must.Succeed(t, err)
			defer s.Close()
			must.Succeed(t, s.Release(bounded(t), grant(t, s, request("k")), lease.Result{}))
		})
	}
}

func TestKubeconfigIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const contexts = `
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
`
	with := func(cluster, user string) string {
		return contexts + "clusters: [{name: c, cluster: {" + cluster + "}}]\nusers: [{name: u, user: {" + user + "}}]\n"
	}
	const server = `server: "https://127.0.0.1:1"`
	for text, says := range map[string]string{
		"s3cret: [":           "no YAML",
		"{}":                  "no current context",
		"current-context: d":  "no context d",
		contexts:              "no server",
		with("server: h", ""): "https",
		with(`server: "http://127.0.0.1:1"`, "token: s3cret"):                                                         "https",
		with(server+", proxy-url: http://s3cret", ""):                                                                 "proxy",
		with(server+", certificate-authority: /does/not/exist", ""):                                                   "cannot be read",
		with(server+", certificate-authority-data: s3cret", ""):                                                       "base64",
		with(server, "exec: {command: s3cret}"):                                                                       "exec",
		with(server, "exec: {command: s3cret, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Always}"): "exec",
		with(server, "auth-provider: {name: gcp}"):                                                                    "auth-provider",
		with(server, "as: s3cret"):                                                                                    "needs as",
		with(server, "username: admin, password: s3cret"):                                                             "username",
		with(server, "tokenFile: /does/not/exist"):                                                                    "cannot be read",
		with(server, "client-certificate: none, client-key: s3cretx"):                                                 "cannot be read",
	} {
		_, err := open(Options{Prefix: prefix}, place{files: []string{write(t, dir, "config", text)}})
		leasetest.RefusesURL(t, text, err, "s3cret")
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%s\n%v, want %s", text, err, says)
		}
	}
	if _, err := open(Options{Prefix: prefix}, place{files: []string{"/does/not/exist"}}); err == nil || !strings.Contains(err.Error(), "no kubeconfig") {
		t.Errorf("%v", err)
	}
}

// The files are read again for the login, but not for cluster and namespace: if a renewal
// went to another cluster, other candidates could take the lease in this one. If the files
// cannot be read any more, their last content counts.
func TestContextIsSwitched(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	dir := t.TempDir()
	config := func(current, server, namespace, token string) string {
		return write(t, dir, "config", `
current-context: `+current+`
contexts: [{name: jobs, context: {cluster: c, user: u, namespace: `+namespace+`}}, {name: other, context: {cluster: c, user: y, namespace: other}}]
clusters: [{name: c, cluster: {server: "https://`+server+`", certificate-authority: `+b.Certs.File("ca.pem")+`}}]
users: [{name: u, user: {token: `+token+`}}, {name: y, user: {token: wrong}}]
`)
	}
	s := openAs(t, config("jobs", b.Addr, "jobs", "leaderrun"), Options{})
	l := grant(t, s, request("k"))
	renewed := func() any { return b.lease(t, "k")["spec"].(map[string]any)["renewTime"] } // in the namespace jobs
	for what, change := range map[string]func(){
		"the current context":      func() { config("other", b.Addr, "jobs", "leaderrun") },
		"the context's namespace":  func() { config("jobs", b.Addr, "other", "leaderrun") },
		"the cluster's server":     func() { config("jobs", "127.0.0.1:1", "jobs", "leaderrun") },
		"the file, half written":   func() { write(t, dir, "config", "apiVersion: v1\n") },
		"the file, which has gone": func() { _ = os.Remove(filepath.Join(dir, "config")) },
	} {
		change()
		before := renewed()
		if _, err := s.Renew(bounded(t), l); err != nil || renewed() == before {
			t.Errorf("%s is changed: renewed %t, %v", what, renewed() != before, err)
		}
	}
	config("other", b.Addr, "jobs", "wrong")
	networktest.WantError(t, networktest.NotRenewed(t, s, l), false, "", "") // the token of its context is wrong
}

// openWithPlugin opens a store whose login comes from a plugin: a shell script, which knows the
// file status in dir as $FILE.
func (b backend) openWithPlugin(t *testing.T, dir, text string) *Store {
	t.Helper()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "plugin"), []byte("#!/bin/sh\n"+text), 0o700))
	return openAs(t, write(t, dir, "config", `
current-context: c
contexts: [{name: c, context: {cluster: c, user: u, namespace: jobs}}]
clusters: [{name: c, cluster: {server: "https://`+b.Addr+`", certificate-authority: `+b.Certs.File("ca.pem")+`}}]
users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, env: [{name: FILE, value: `+dir+`/status}]}}}]
`), Options{})
}

// A plugin returns the login, and is run again once that has expired or is no longer
// accepted.
func TestPlugin(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	dir := t.TempDir()
	says := func(status string) {
		write(t, dir, "status", `{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{`+status+`}}`)
	}
	asked := func() int {
		text := must.Read(t, filepath.Join(dir, "asked"))
		return strings.Count(text, "asked")
	}
	says(`"token":"leaderrun"`)
	s := b.openWithPlugin(t, dir, `
case $KUBERNETES_EXEC_INFO in *'"interactive":false'*) ;; *) exit 3 ;; esac
echo asked >>`+dir+`/asked
cat "$FILE" || exit 1
`)
	l := grant(t, s, request("k"))
	if asked() != 1 {
		t.Errorf("asked %d times", asked())
	}
	says(`"token":"not any more"`)
	s.credentials.Forget()
	networktest.WantError(t, networktest.NotRenewed(t, s, l), false, "", "")
	says(`"token":"client","expirationTimestamp":"2001-01-01T00:00:00Z"`)
	if renew(t, s, l); asked() < 3 {
		t.Errorf("asked %d times", asked())
	}
	must.Succeed(t, os.Remove(filepath.Join(dir, "status")))
	networktest.WantError(t, networktest.NotRenewed(t, s, l), false, "No such file", "") // the plugin fails
	pem := func(name string) string {
		text := must.Read(t, b.Certs.File(name))
		return strconv.Quote(text)
	}
	says(`"clientCertificateData":` + pem("client.pem") + `,"clientKeyData":` + pem("client.key"))
	grant(t, openAs(t, filepath.Join(dir, "config"), Options{}), request("by-certificate"))
}

// A plugin may take longer than a request: the next request finds its answer. Until then the
// last answer counts, if it has not expired.
func TestSlowPlugin(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	dir := t.TempDir()
	gate := filepath.Join(dir, "gate")
	says := func(user string, expires time.Time) {
		write(t, dir, "status", `{"kind":"ExecCredential","status":{"token":"`+user+`","expirationTimestamp":"`+expires.UTC().Format(time.RFC3339)+`"}}`)
	}
	s := b.openWithPlugin(t, dir, `
while ! [ -e `+gate+` ]; do sleep 0.1; done
cat "$FILE"
`)
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	_, err := s.Acquire(short(), request("k"))
	networktest.WantError(t, err, false, "has not answered yet", "")
	says("leaderrun", time.Now().Add(ahead-2*time.Second))
	opens := func() { write(t, dir, "gate", "") }
	opens()
	l := grant(t, s, request("k"))
	must.Succeed(t, os.Remove(gate))
	says("client", time.Now().Add(time.Hour))
	renew(t, s, l) // with what it said before
	opens()
	awaits(t, "what it says next", func() bool { a, err := s.who(t.Context()); return err == nil && a.token == "client" })
}

// A user without rights, or one that the API server does not know, gets a permanent error.
func TestRights(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	for user, c := range map[string]struct{ says, hint string }{
		"reader":  {`cannot create resource "leases"`, "needs the verbs"},
		"nobody":  {`cannot get resource "leases"`, "needs the verbs"},
		"unknown": {"does not know who asks", "kubectl auth whoami"},
	} {
		s := openAs(t, b.Kubeconfig(user), Options{})
		s.Instant.Settle = 0
		networktest.WantError(t, networktest.Refused(t, s), true, c.says, c.hint)
	}
	s := b.open(t)
	grant(t, s, request("k"))
	_, err := s.Keys(bounded(t))
	networktest.WantError(t, err, true, "", "list")
	if keys, err := openAs(t, b.Kubeconfig("admin"), Options{}).Keys(bounded(t)); err != nil || len(keys) != 1 || keys[0] != "k" {
		t.Errorf("%q, %v", keys, err)
	}
	foreign := script.WriteKubeconfig(t, b.Addr, script.NewCertificates(t, t.TempDir()), "leaderrun")
	networktest.WantError(t, networktest.Refused(t, openAs(t, foreign, Options{})), true, "", "certificate-authority in the kubeconfig")
}
