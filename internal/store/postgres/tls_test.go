//go:build linux

package postgres

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// shown returns the files of a server that shows the certificate of that name.
func shown(t *testing.T, certs script.Certificates, name string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for as, file := range map[string]string{"server.crt": name + ".pem", "server.key": name + ".key", "root.crt": "ca.pem"} {
		text := must.Read(t, certs.File(file))
		files[as] = text
	}
	return files
}

func TestTLS(t *testing.T) {
	t.Parallel()
	c := script.NewCertificates(t, t.TempDir())
	servers := map[string]backend{}
	for _, name := range []string{"server", "expired", "elsewhere"} {
		files := shown(t, c, name)
		files["pg_hba.conf"] = "host all postgres 127.0.0.1/32 scram-sha-256\nhostssl all client 127.0.0.1/32 cert\nhostssl all all 127.0.0.1/32 scram-sha-256\n"
		servers[name] = agedBackend(t, files, "ssl=on", "ssl_ca_file=root.crt")
	}
	servers["none"] = newBackend(t)
	for _, s := range servers {
		s.do(t, createTable+"; CREATE ROLE client LOGIN; CREATE ROLE cron LOGIN PASSWORD 'sesame'; GRANT "+rights+" ON leaderrun_leases TO client, cron")
	}
	ca := "&sslrootcert=" + c.File("ca.pem")
	client := "&sslcert=" + c.File("client.pem") + "&sslkey=" + c.File("client.key")
	for _, x := range []struct {
		name, server, user, parameters string
		permanent                      bool
		says, hint                     string // empty: it is granted
	}{
		{name: "unsaid", server: "server"},
		{name: "unsaid, no TLS there", server: "none"},
		{name: "unsaid, expired", server: "expired"},
		{name: "required", server: "server", parameters: "sslmode=require"},
		{name: "direct", server: "server", parameters: "sslmode=verify-full&sslnegotiation=postgres" + ca},
		{name: "ca, another name", server: "elsewhere", parameters: "sslmode=verify-ca" + ca},
		{name: "ca, expired", server: "expired", parameters: "sslmode=verify-ca" + ca, permanent: true, says: "a certificate that it shows is valid from 20", hint: "renew that certificate"},
		{name: "certificate", server: "server", user: "client", parameters: "sslmode=verify-full" + ca + client},
		{name: "certificate needed", server: "server", user: "client", parameters: "sslmode=verify-full" + ca, permanent: true, says: "valid client certificate", hint: "sslcert"},
		{name: "certificate of another", server: "server", user: "client", parameters: "sslmode=verify-full" + ca + "&sslcert=" + c.File("foreign.pem") + "&sslkey=" + c.File("foreign.key"), permanent: true, says: "valid client certificate", hint: "sslcert"},
		{name: "disabled", server: "server", parameters: "sslmode=disable", permanent: true, says: "no pg_hba.conf entry", hint: "sslmode"},
	} {
		t.Run(x.name, func(t *testing.T) {
			user := x.user
			if user == "" {
				user = "cron"
			}
			s := openWith(t, Options{URL: strings.TrimSuffix(networktest.As(t, servers[x.server].URL, user)+"?"+x.parameters, "?")})
			for range 2 {
				l, err := s.Acquire(bounded(t), request("k"))
				if x.says != "" {
					networktest.WantError(t, err, x.permanent, x.says, x.hint)
					continue
				}
				must.Succeed(t, err)
				must.Succeed(t, s.Release(bounded(t), l, lease.Result{}))
			}
		})
	}
}

func TestCertificatesAreReadAgain(t *testing.T) {
	certs := script.NewCertificates(t, t.TempDir())
	b := backend{script.StartPostgres(t, shown(t, certs, "server"), "ssl=on")}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	install := func(name string) {
		t.Helper()
		must.Succeed(t, os.WriteFile(ca, []byte(must.Read(t, certs.File(name+".pem"))), 0o600))
	}
	install("ca")
	open := func() networktest.Store {
		return openWith(t, Options{URL: b.URL + "?sslmode=verify-full&sslrootcert=" + ca})
	}
	spoil := func() {
		install("foreign")
		b.do(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'leaderrun'")
	}
	networktest.LoginIsReadAgain(t, open, spoil, func() { install("ca") }, "not signed by a CA that this host trusts", "sslrootcert")
}
