//go:build linux

package postgres

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// certificates is a folder with a private CA and what it has signed, NAME.pem with
// NAME.key each.
type certificates string

func newCertificates(t *testing.T) certificates {
	t.Helper()
	c := certificates(t.TempDir())
	now := time.Now()
	loopback := []net.IP{net.IPv4(127, 0, 0, 1)}
	foreign := c.sign(t, "foreign", x509.Certificate{IsCA: true, NotAfter: now.Add(time.Hour)}, nil)
	ca := c.sign(t, "ca", x509.Certificate{IsCA: true, NotAfter: now.Add(time.Hour)}, nil)
	c.sign(t, "server", x509.Certificate{IPAddresses: loopback, NotAfter: now.Add(time.Hour)}, ca)
	c.sign(t, "expired", x509.Certificate{IPAddresses: loopback, NotAfter: now.Add(-time.Hour)}, ca)
	c.sign(t, "elsewhere", x509.Certificate{DNSNames: []string{"pg.example"}, NotAfter: now.Add(time.Hour)}, ca)
	c.sign(t, "client", x509.Certificate{NotAfter: now.Add(time.Hour)}, ca)
	c.sign(t, "other", x509.Certificate{NotAfter: now.Add(time.Hour)}, foreign)
	return c
}

func (c certificates) file(name string) string { return filepath.Join(string(c), name) }

// sign writes a certificate and its key; without a CA it signs itself.
func (c certificates) sign(t *testing.T, name string, cert x509.Certificate, by *tls.Certificate) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	cert.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	must(t, err)
	cert.Subject = pkix.Name{CommonName: name}
	cert.NotBefore, cert.BasicConstraintsValid = cert.NotAfter.Add(-48*time.Hour), true
	parent, signer := &cert, any(key)
	if by != nil {
		parent, signer = by.Leaf, by.PrivateKey
	}
	signed, err := x509.CreateCertificate(rand.Reader, &cert, parent, &key.PublicKey, signer)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	must(t, os.WriteFile(c.file(name+".pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o600))
	must(t, os.WriteFile(c.file(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	pair, err := tls.LoadX509KeyPair(c.file(name+".pem"), c.file(name+".key"))
	must(t, err)
	return &pair
}

// shown are the files of a server that shows the certificate of that name.
func (c certificates) shown(t *testing.T, name string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for as, file := range map[string]string{"server.crt": name + ".pem", "server.key": name + ".key", "root.crt": "ca.pem"} {
		text, err := os.ReadFile(c.file(file))
		must(t, err)
		files[as] = string(text)
	}
	return files
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	c := newCertificates(t)
	servers := map[string]backend{}
	for _, name := range []string{"server", "expired", "elsewhere"} {
		files := c.shown(t, name)
		files["pg_hba.conf"] = "host all postgres 127.0.0.1/32 scram-sha-256\nhostssl all client 127.0.0.1/32 cert\nhostssl all all 127.0.0.1/32 scram-sha-256\n"
		servers[name] = agedBackend(t, files, "ssl=on", "ssl_ca_file=root.crt")
	}
	servers["none"] = newBackend(t)
	for _, s := range servers {
		s.do(t, createTable+"; CREATE ROLE client LOGIN; CREATE ROLE cron LOGIN PASSWORD 'sesame'; GRANT "+rights+" ON leaderrun_leases TO client, cron")
	}
	ca := "&sslrootcert=" + c.file("ca.pem")
	client := "&sslcert=" + c.file("client.pem") + "&sslkey=" + c.file("client.key")
	for _, x := range []struct {
		name, server, user, parameters string
		permanent                      bool
		says, hint                     string // empty: it is granted
	}{
		{name: "unsaid", server: "server"},
		{name: "unsaid, no TLS there", server: "none"},
		{name: "unsaid, expired", server: "expired"},
		{name: "required", server: "server", parameters: "sslmode=require"},
		{name: "required, no TLS there", server: "none", parameters: "sslmode=require", permanent: true, says: "it speaks no TLS", hint: "turn on ssl"},
		{name: "full", server: "server", parameters: "sslmode=verify-full" + ca},
		{name: "direct", server: "server", parameters: "sslmode=verify-full&sslnegotiation=postgres" + ca},
		{name: "full, unknown CA", server: "server", parameters: "sslmode=verify-full", permanent: true, says: "not signed by a CA that this host trusts", hint: "sslrootcert="},
		{name: "full, another CA", server: "server", parameters: "sslmode=verify-full&sslrootcert=" + c.file("foreign.pem"), permanent: true, says: "not signed by a CA", hint: "sslrootcert="},
		{name: "full, another name", server: "elsewhere", parameters: "sslmode=verify-full" + ca, permanent: true, says: "not for this name", hint: "name"},
		{name: "ca, another name", server: "elsewhere", parameters: "sslmode=verify-ca" + ca},
		{name: "ca, expired", server: "expired", parameters: "sslmode=verify-ca" + ca, permanent: true, says: "a certificate that it shows is valid from 20", hint: "renew that certificate"},
		{name: "full, expired", server: "expired", parameters: "sslmode=verify-full" + ca, permanent: true, says: "a certificate that it shows is valid from 20", hint: "renew that certificate"},
		{name: "certificate", server: "server", user: "client", parameters: "sslmode=verify-full" + ca + client},
		{name: "certificate needed", server: "server", user: "client", parameters: "sslmode=verify-full" + ca, permanent: true, says: "valid client certificate", hint: "sslcert"},
		{name: "certificate of another", server: "server", user: "client", parameters: "sslmode=verify-full" + ca + "&sslcert=" + c.file("other.pem") + "&sslkey=" + c.file("other.key"), permanent: true, says: "valid client certificate", hint: "sslcert"},
		{name: "disabled", server: "server", parameters: "sslmode=disable", permanent: true, says: "no encryption", hint: "sslmode"},
	} {
		t.Run(x.name, func(t *testing.T) {
			user := x.user
			if user == "" {
				user = "cron"
			}
			s := openWith(t, Options{URL: strings.TrimSuffix(servers[x.server].as(t, user)+"?"+x.parameters, "?")})
			for range 2 {
				l, err := s.Acquire(bounded(t), request("k"))
				if x.says != "" {
					networktest.WantError(t, err, x.permanent, x.says, x.hint)
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Release(bounded(t), l, lease.Result{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A CA is replaced while a command runs. Until both sides have the new one there is
// no answer; at the first contact a wrong one needs a person.
func TestCertificatesAreReadAgain(t *testing.T) {
	certs := newCertificates(t)
	b := backend{script.StartPostgres(t, certs.shown(t, "server"), "ssl=on")}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	install := func(name string) {
		t.Helper()
		text, err := os.ReadFile(certs.file(name + ".pem"))
		if err == nil {
			err = os.WriteFile(ca, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	install("ca")
	url := b.URL + "?sslmode=verify-full&sslrootcert=" + ca
	s := openWith(t, Options{URL: url})
	l := grant(t, s, request("k"))
	install("foreign")
	b.do(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'leaderrun'")
	_, _ = s.Renew(bounded(t), l) // it finds the end of its connection
	_, err := s.Renew(bounded(t), l)
	networktest.WantError(t, err, false, "not signed by a CA that this host trusts", "sslrootcert")
	networktest.WantError(t, acquire(t, openWith(t, Options{URL: url})), true, "not signed by a CA that this host trusts", "sslrootcert")
	install("ca")
	if _, err := s.Renew(bounded(t), l); err != nil {
		t.Error(err)
	}
}
