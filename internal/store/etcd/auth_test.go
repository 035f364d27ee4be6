//go:build linux

package etcd

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// secured is an etcd with users: root, worker with the rights of docs/stores.md, and reader.
func secured(t *testing.T) backend {
	b := newBackend(t)
	type m = map[string]any
	for _, user := range []string{"root", "worker", "reader"} {
		b.ask(t, "/v3/auth/user/add", m{"name": user, "password": "sesame"})
		b.ask(t, "/v3/auth/role/add", m{"name": user})
		b.ask(t, "/v3/auth/user/grant", m{"user": user, "role": user})
	}
	for role, kind := range map[string]string{"worker": "READWRITE", "reader": "READ"} {
		b.ask(t, "/v3/auth/role/grant", m{"name": role, "perm": m{"permType": kind, "key": encoded(prefix + "/"), "range_end": encoded(prefix + "0")}})
	}
	b.ask(t, "/v3/auth/enable", m{})
	return b
}

func TestUsers(t *testing.T) {
	t.Parallel()
	b := secured(t)
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) {
		must.Succeed(t, os.WriteFile(file, []byte(password+"\n"), 0o600))
	}
	write("sesame")
	s := openWith(t, Options{URL: "etcd://" + url.UserPassword("worker", "file:"+file).String() + "@" + b.Addr})
	l := grant(t, s, request("k"))
	if _, err := s.Keys(bounded(t)); err != nil {
		t.Error(err)
	}
	// A token that was not used for minutes is no longer valid.
	s.client.token = "fgETNXKqqNnDsaCB.9"
	renew(t, s, l) // with an old token
	write("wrong")
	s.client.token = "fgETNXKqqNnDsaCB.9"
	networktest.WantError(t, networktest.NotRenewed(t, s, l), false, "", "") // a password that was accepted is being changed
	write("sesame")
	must.Succeed(t, s.Release(bounded(t), l, lease.Result{Ran: true})) // after the change
	for name, c := range map[string]struct{ user, says, hint string }{
		"nobody":         {"", "user name is empty", "USER:PASSWORD"},
		"wrong password": {"worker:s3cret@", "authentication failed", "correct the user or the password"},
		"unknown":        {"nobody:s3cret@", "authentication failed", "correct the user or the password"},
		"no right":       {"reader:sesame@", "permission denied", "role grant-permission"},
	} {
		t.Run(name, func(t *testing.T) {
			s := openWith(t, Options{URL: "etcd://" + c.user + b.Addr})
			networktest.WantError(t, networktest.Refused(t, s), true, c.says, c.hint)
		})
	}
	reader := openWith(t, Options{URL: "etcd://reader:sesame@" + b.Addr})
	if _, err := reader.Inspect(bounded(t), "k"); err != nil {
		t.Errorf("a reader sees the status: %v", err)
	}
}

func TestRightsComeBack(t *testing.T) {
	t.Parallel()
	b := secured(t)
	root := openWith(t, Options{URL: "etcd://root:sesame@" + b.Addr})
	change := func(path string) func() {
		return func() {
			if _, err := root.client.post(bounded(t), b.Addr, "/v3/auth/user/"+path, map[string]string{"name": "worker", "user": "worker", "role": "worker"}, &map[string]any{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	open := func() networktest.Store { return openWith(t, Options{URL: "etcd://worker:sesame@" + b.Addr}) }
	networktest.RightsComeBack(t, open, root, change("revoke"), change("grant"), "permission denied")
}

// A gateway may hang up instead of saying that a token is unknown, as after a restart.
func TestGatewayHangsUp(t *testing.T) {
	t.Parallel()
	b := secured(t)
	to := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: b.Addr})
	to.ModifyResponse = func(r *http.Response) error {
		if r.StatusCode != http.StatusOK {
			panic(http.ErrAbortHandler) // the connection is closed
		}
		return nil
	}
	proxy := httptest.NewServer(to)
	t.Cleanup(proxy.Close)
	s := openWith(t, Options{URL: "etcd://worker:sesame@" + proxy.Listener.Addr().String()})
	l := grant(t, s, request("k"))
	b.Restart()
	renew(t, s, l)
}

func TestNoGateway(t *testing.T) {
	t.Parallel()
	b := newBackend(t, "--enable-grpc-gateway=false")
	networktest.WantError(t, networktest.Refused(t, b.open(t)), true, "it has no gateway", "enable-grpc-gateway: true in the file of its --config-file")
}

// A user in the address of an etcd without users does no harm, as for etcdctl.
func TestNoUsers(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	grant(t, openWith(t, Options{URL: "etcd://worker:sesame@" + b.Addr}), request("k"))
}

func TestTLS(t *testing.T) {
	t.Parallel()
	certs := script.NewCertificates(t, t.TempDir())
	tls := []string{"--cert-file=" + certs.File("server.pem"), "--key-file=" + certs.File("server.key")}
	plain, server := newBackend(t), script.StartEtcd(t, tls...)
	mutual := script.StartEtcd(t, append(tls, "--client-cert-auth", "--trusted-ca-file="+certs.File("ca.pem"))...)
	serving := script.StartEtcd(t, "--cert-file="+certs.File("serving.pem"), "--key-file="+certs.File("serving.key"), "--client-cert-auth", "--trusted-ca-file="+certs.File("ca.pem"))
	_, port, _ := net.SplitHostPort(server.Addr)
	ca, client := "?ca="+certs.File("ca.pem"), "&cert="+certs.File("client.pem")+"&key="+certs.File("client.key")
	for _, c := range []struct{ name, url, says, hint string }{
		{name: "a private CA", url: "etcds://" + server.Addr + ca},
		{name: "by name", url: "etcds://localhost:" + port + "/" + ca},
		{name: "client certificate", url: "etcds://" + mutual.Addr + ca + client},
		{name: "insecure", url: "etcds://" + server.Addr + "?insecure=true"},
		{name: "no CA", url: "etcds://" + server.Addr, says: "not signed by a CA", hint: "ca=FILE"},
		{name: "wrong name", url: "etcds://" + server.Addr + ca + "&server_name=etcd.example", says: "not for this name", hint: "server_name=NAME"},
		{name: "no client certificate", url: "etcds://" + mutual.Addr + ca, says: "certificate", hint: "cert=FILE&key=FILE"},
		{name: "a server's certificate only", url: "etcds://" + serving.Addr + ca + client, says: "connection", hint: "clientAuth"},
		{name: "TLS where there is none", url: "etcds://" + plain.Addr + ca, says: "closed the connection", hint: "etcd:// where it does not"},
		{name: "no TLS where there is", url: "etcd://" + server.Addr, says: "closed the connection", hint: "etcds:// where it speaks TLS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openWith(t, Options{URL: c.url})
			if c.says == "" {
				l := grant(t, s, request("k"))
				must.Succeed(t, s.Release(bounded(t), l, lease.Result{}))
				return
			}
			networktest.WantError(t, networktest.Refused(t, s), !strings.Contains(c.says, "closed") && c.says != "connection", c.says, c.hint)
		})
	}
}

// An etcd with users takes no client certificate with a common name through its gateway.
func TestUsersAndCertificates(t *testing.T) {
	t.Parallel()
	certs := script.NewCertificates(t, t.TempDir())
	b := script.StartEtcd(t, "--cert-file="+certs.File("server.pem"), "--key-file="+certs.File("server.key"), "--client-cert-auth", "--trusted-ca-file="+certs.File("ca.pem"))
	opened := func(user, cert string) *Store {
		return openWith(t, Options{URL: "etcds://" + user + b.Addr + "?ca=" + certs.File("ca.pem") + "&cert=" + certs.File(cert+".pem") + "&key=" + certs.File(cert+".key")})
	}
	before := opened("root:sesame@", "client")
	l := grant(t, before, request("before"))
	type m = map[string]any
	for path, question := range map[string]m{"user/add": {"name": "root", "password": "sesame"}, "role/add": {"name": "root"}} {
		if _, err := before.client.post(bounded(t), b.Addr, "/v3/auth/"+path, question, &m{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"user/grant", "enable"} {
		if _, err := before.client.post(bounded(t), b.Addr, "/v3/auth/"+path, m{"user": "root", "role": "root"}, &m{}); err != nil {
			t.Fatal(err)
		}
	}
	networktest.WantError(t, networktest.Refused(t, opened("root:sesame@", "client")), true, "CommonName of client", "without a common name")
	networktest.WantError(t, networktest.NotRenewed(t, before, l), false, "CommonName of client", "without a common name")
	grant(t, opened("root:sesame@", "nameless"), request("k"))
}

// The server is no etcd, or an etcd that cannot be used.
func TestNoEtcd(t *testing.T) {
	t.Parallel()
	serve := func(status int, text string, header ...string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				if w.Header().Set(header[i], header[i+1]); header[i+1] == "" {
					w.Header()[header[i]] = nil
				}
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(text))
		}))
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "http://")
	}
	nothing := `{"header":{"cluster_id":"1","revision":"1","raft_term":"2"},"responses":[{"response_range":{}},{"response_range":{}}]}`
	// writes answers reads like an empty etcd, and writes with a text.
	writes := func(text string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			q, _ := io.ReadAll(r.Body)
			answer := nothing
			if bytes.Contains(q, []byte("request_put")) {
				answer = text
			}
			_, _ = io.WriteString(w, answer)
		}))
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "http://")
	}
	for name, c := range map[string]struct {
		addr, says, hint string
		permanent        bool
	}{
		"a page":             {serve(200, "<html>"), "something else than an etcd", "names an etcd", false},
		"nothing":            {serve(200, "{}"), "something else than an etcd", "names an etcd", false},
		"not found":          {serve(404, "<html>not found"), "HTTP status 404", "names an etcd", false},
		"another version":    {serve(404, `{"error":"Not Found","code":5}`), "Not Found", "3.4 or later", true},
		"somewhere else":     {serve(302, "", "Location", "http://example.org"), "HTTP status 302", "names an etcd", false},
		"no date":            {serve(200, nothing, "Date", ""), "no Date", "between this host and that server", true},
		"a change not taken": {serve(200, nothing), "it does not take what is written to it", "names an etcd", false},
		"a write by nobody":  {writes(`{"header":{"revision":"2"},"succeeded":true}`), "something else than an etcd", "names an etcd", false},
		"an old write":       {writes(`{"header":{"revision":"0"},"succeeded":true,"responses":[{"response_put":{"header":{"revision":"0"}}}]}`), "something else than an etcd", "names an etcd", false},
		"a read for a write": {writes(`{"header":{"revision":"2"},"succeeded":true,"responses":[{"response_range":{}}]}`), "something else than an etcd", "names an etcd", false},
		"a page for a write": {writes("<html>"), "something else than an etcd", "names an etcd", false},
		"full":               {serve(429, `{"error":"etcdserver: mvcc: database space exceeded","code":8}`), "database space exceeded", "defragment", false},
		"hangs up":           {networktest.Answering(t, ""), "closed the connection", "names an etcd", false},
		"another protocol":   {networktest.Answering(t, "-ERR no\r\n"), "no etcd", "names an etcd", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := openWith(t, Options{URL: "etcd://" + c.addr})
			s.Instant.Settle = 0
			networktest.WantError(t, networktest.Refused(t, s), c.permanent, c.says, c.hint)
		})
	}
}
