package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// Proxies and servers cut idle connections; with TLS the client itself does not look.
func TestCutWhileIdle(t *testing.T) {
	t.Parallel()
	certs := script.NewCertificates(t, t.TempDir())
	server := script.StartRedis(t)
	secure := "rediss://" + certs.ServeTLS(t, rawClient(t, server.Addr), "server") + "?ca=" + certs.File("ca.pem")
	for name, url := range map[string]string{"plain": "redis://" + server.Addr, "TLS": secure} {
		t.Run(name, func(t *testing.T) {
			networktest.CutWhileIdle(t, func(dial network.Dial) networktest.Store {
				return openWith(t, Options{URL: url, Prefix: name, Dialer: dial})
			})
		})
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	certs := script.NewCertificates(t, t.TempDir())
	server := script.StartRedis(t)
	b := backend{raw: rawClient(t, server.Addr)}
	addr := certs.ServeTLS(t, b.raw, "server")
	_, port, _ := net.SplitHostPort(addr)
	ca := "?ca=" + certs.File("ca.pem")
	client := "&cert=" + certs.File("client.pem") + "&key=" + certs.File("client.key")
	foreign := "&cert=" + certs.File("foreign.pem") + "&key=" + certs.File("foreign.key")
	for _, c := range []struct {
		name, shows, wants, url string
		says, hint              string // nothing: a grant
	}{
		{name: "a database", url: "rediss://" + addr + "/3" + ca},
		{name: "by name", url: "rediss://localhost:" + port + ca},
		{name: "by the name it shows", shows: "elsewhere", url: "rediss://" + addr + ca + "&server_name=redis.example"},
		{name: "client certificate that nobody wants", url: "rediss://" + addr + ca + client},

		{name: "not valid yet", shows: "early", url: "rediss://" + addr + ca, says: "a certificate that it shows is valid from 20", hint: "set the clock"},
		{name: "a CN only", shows: "unnamed", url: "rediss://localhost:" + port + ca, says: "no name of a host", hint: "subjectAltName"},
		{name: "a CN only, named", shows: "unnamed", url: "rediss://" + addr + ca + "&server_name=localhost", says: "no name of a host", hint: "subjectAltName"},
		{name: "another's certificate", shows: "elsewhere", url: "rediss://" + addr + ca, says: "its certificate is not for this name: ", hint: "server_name=NAME"},
		{name: "a foreign client certificate", wants: "yes", url: "rediss://" + addr + ca + foreign, says: "it refuses this side of TLS: unknown certificate authority", hint: "cert=FILE&key=FILE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			shows, wants := cmp.Or(c.shows, "server"), cmp.Or(c.wants, "no")
			b.do(t, "CONFIG", "SET", "tls-cert-file", certs.File(shows+".pem"), "tls-key-file", certs.File(shows+".key"), "tls-auth-clients", wants)
			s := openWith(t, Options{URL: c.url, Prefix: prefix})
			if c.says != "" {
				networktest.WantError(t, networktest.Refused(t, s), c.shows != "early", c.says, c.hint) // a clock is set at some time
				return
			}
			l := grant(t, s, request(strings.ReplaceAll(c.name, " ", "-")))
			must.Succeed(t, s.Release(bounded(t), l, lease.Result{}))
		})
	}
}

// If a CA is given, no other one is trusted.
func TestPrivateCA(t *testing.T) {
	certs := script.NewCertificates(t, t.TempDir())
	text := must.Read(t, certs.File("ca.pem"))
	want := x509.NewCertPool()
	want.AppendCertsFromPEM([]byte(text))
	s := openWith(t, Options{URL: "rediss://h?ca=" + certs.File("ca.pem"), Prefix: prefix})
	if !s.servers.tls.RootCAs.Equal(want) {
		t.Error("others are trusted, too")
	}
}

// A server that refuses the client's certificate says so after the handshake, and may have
// closed the connection before the first request is sent.
func TestAlertBeforeTheFirstRequest(t *testing.T) {
	certs := script.NewCertificates(t, t.TempDir())
	addr, closed := hangingUp(t, certs, &tls.Config{ClientAuth: tls.RequireAnyClientCert})
	s := openWith(t, Options{URL: "rediss://" + addr + "?insecure=true", Prefix: prefix, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &resetConn{Conn: c, closed: closed}, err
	}})
	networktest.WantError(t, networktest.Refused(t, s), true, "it refuses this side of TLS: certificate required", "cert=FILE&key=FILE")
}

// resetConn fails like a connection whose peer has closed it with data unread.
type resetConn struct {
	net.Conn
	closed <-chan struct{}
	writes int
}

func (c *resetConn) Write(p []byte) (int, error) {
	if c.writes++; c.writes <= 2 { // hello and finished
		return c.Conn.Write(p)
	}
	<-c.closed
	return 0, &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.ECONNRESET)}
}

// If one connection breaks, all idle ones are closed: the next call opens a new one. The kernel does
// not say here which are broken, as when packets vanish.
func TestBrokenConnectionsAreLeftTogether(t *testing.T) {
	certs := script.NewCertificates(t, t.TempDir())
	b := realBackend(t)
	s := openWith(t, Options{URL: "rediss://" + certs.ServeTLS(t, b.raw, "server") + "?insecure=true", Prefix: prefix, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return struct{ net.Conn }{c}, err
	}})
	l := grant(t, s, request("k"))
	heard := listening(t, b, s, "k")
	renew(t, s, l) // beside the one that listens
	b.do(t, "RPUSH", s.companion("call", "k"), "1")
	must.Succeed(t, endOf(t, heard))
	b.do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	networktest.WantError(t, networktest.NotRenewed(t, s, l), false, "it closed the connection", "look at its log")
	renew(t, s, l) // on a new connection
}

// The server does not speak TLS as it should.
func TestNoTLS(t *testing.T) {
	old, _ := hangingUp(t, script.NewCertificates(t, t.TempDir()), &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	for _, c := range []struct {
		name, addr string
		says, hint string
	}{
		{"a text", networktest.Answering(t, "HTTP/1.1 400 Bad Request\r\n\r\n", ""), "it speaks no TLS at this port", "redis:// instead of rediss://"},
		{"nonsense in a record", networktest.Answering(t, "\x16\x03\x03\x00\x04\x63\x00\x00\x00", ""), "no TLS: ", "look at its log"},
		{"nothing", networktest.Answering(t, "", ""), "it closed the connection", "look at its log"},
		{"TLS 1.1", old, "it refuses this side of TLS: protocol version not supported", "TLS 1.2 or newer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			networktest.WantError(t, networktest.Refused(t, openWith(t, Options{URL: "rediss://" + c.addr, Prefix: prefix})), false, c.says, c.hint)
		})
	}
}

// hangingUp starts a server that closes each connection after the handshake; closed is closed
// after the first one.
func hangingUp(t *testing.T, certs script.Certificates, config *tls.Config) (addr string, closed <-chan struct{}) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(certs.File("server.pem"), certs.File("server.key"))
	must.Succeed(t, err)
	config.Certificates = []tls.Certificate{pair}
	hungUp := make(chan struct{})
	var once sync.Once
	addr = networktest.Serve(t, func(c net.Conn) {
		server := tls.Server(c, config)
		_ = server.HandshakeContext(t.Context())
		_ = server.Close()
		once.Do(func() { close(hungUp) })
	})
	return addr, hungUp
}

func TestBadCertificateFiles(t *testing.T) {
	dir := t.TempDir()
	f := script.NewCertificates(t, dir).File
	must.Succeed(t, os.WriteFile(f("empty.pem"), nil, 0o600))
	for _, c := range []struct{ query, says, hint string }{
		{"ca=" + dir, "is a directory", "ca="},
		{"ca=" + f("empty.pem"), "holds no certificate", "BEGIN CERTIFICATE"},
		{"key=" + f("client.key"), "a key without its certificate", "cert=FILE&key=FILE"},
		{"cert=" + f("missing.pem") + "&key=" + f("client.key"), "missing.pem: no such file", "key="},
		{"cert=" + f("client.pem") + "&key=" + f("empty.pem"), "cannot be used", "key="},
		{"insecure=maybe", "neither true nor false", "insecure=true"},
	} {
		_, err := New(Options{URL: "rediss://:sesame@h?" + c.query, Prefix: prefix})
		networktest.WantError(t, err, true, c.says, c.hint)
	}
}

// Certificates may be renewed while a command runs. Until both sides have the new ones calls fail
// temporarily; a wrong certificate of a new store is a permanent error.
func TestCertificatesAreReadAgain(t *testing.T) {
	certs := script.NewCertificates(t, t.TempDir())
	b := backend{raw: rawClient(t, script.StartRedis(t).Addr)}
	addr := certs.ServeTLS(t, b.raw, "server")
	dir := t.TempDir()
	install := func(from, to string) {
		t.Helper()
		must.Succeed(t, os.WriteFile(filepath.Join(dir, to), []byte(must.Read(t, certs.File(from))), 0o600))
	}
	url := "rediss://" + addr + "?ca=" + dir + "/ca.pem&cert=" + dir + "/client.pem&key=" + dir + "/client.key"
	b.do(t, "CONFIG", "SET", "tls-auth-clients", "yes")
	for _, name := range []string{"ca.pem", "client.pem", "client.key"} {
		install(name, name)
	}
	s := openWith(t, Options{URL: url, Prefix: prefix})
	l := grant(t, s, request("k"))
	for name, c := range map[string]struct {
		change func()
		says   string
	}{
		"another CA":          {func() { install("foreign.pem", "ca.pem") }, "not signed by a CA that this host trusts"},
		"another certificate": {func() { install("foreign.pem", "client.pem"); install("foreign.key", "client.key") }, "unknown certificate authority"},
		"half of a pair":      {func() { install("foreign.pem", "client.pem") }, "cannot be used"},
		"no file":             {func() { _ = os.Remove(filepath.Join(dir, "client.key")) }, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			c.change()
			b.do(t, "CLIENT", "KILL", "TYPE", "normal")
			_, _ = s.Renew(bounded(t), l) // fails: the connection has ended
			networktest.WantError(t, networktest.NotRenewed(t, s, l), false, c.says, "")
			first, err := New(Options{URL: url, Prefix: prefix})
			if err == nil {
				_, err = first.Acquire(bounded(t), request("k"))
				_ = first.Close()
			}
			networktest.WantError(t, err, true, "", "") // at the first contact
			for _, name := range []string{"ca.pem", "client.pem", "client.key"} {
				install(name, name)
			}
			renew(t, s, l)
		})
	}
}
