package script

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// Certificates is a folder with a private CA and its certificates, in PEM form, each as
// NAME.pem and NAME.key: ca, server (for 127.0.0.1 and localhost), client, expired (like
// server, until yesterday), early (from tomorrow on), elsewhere (for another name), unnamed (a server
// with a common name only), serving (like server, by its usage not for clients), nameless (a client without one), and foreign, another CA.
type Certificates string

// NewCertificates creates the certificates of one test in dir.
func NewCertificates(t must.T, dir string) Certificates {
	t.Helper()
	c := Certificates(dir)
	now := time.Now()
	loopback := x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}}
	c.sign(t, "foreign", "foreign", x509.Certificate{IsCA: true}, now.Add(24*time.Hour))
	c.sign(t, "ca", "ca", x509.Certificate{IsCA: true}, now.Add(24*time.Hour))
	c.sign(t, "ca", "server", loopback, now.Add(24*time.Hour))
	c.sign(t, "ca", "expired", loopback, now.Add(-24*time.Hour))
	c.sign(t, "ca", "early", loopback, now.Add(72*time.Hour))
	serving := loopback
	serving.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	c.sign(t, "ca", "serving", serving, now.Add(24*time.Hour))
	c.sign(t, "ca", "unnamed", x509.Certificate{Subject: pkix.Name{CommonName: "localhost"}}, now.Add(24*time.Hour))
	c.sign(t, "ca", "elsewhere", x509.Certificate{DNSNames: []string{"redis.example"}}, now.Add(24*time.Hour))
	c.sign(t, "ca", "client", x509.Certificate{}, now.Add(24*time.Hour))
	c.sign(t, "ca", "nameless", x509.Certificate{Subject: pkix.Name{Organization: []string{"jobs"}}}, now.Add(24*time.Hour)) // a client
	return c
}

// File returns the path of one of the files.
func (c Certificates) File(name string) string { return filepath.Join(string(c), name) }

// sign writes a certificate that was signed by another, or by itself, and its key.
func (c Certificates) sign(t must.T, by, name string, cert x509.Certificate, until time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Succeed(t, err)
	cert.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	must.Succeed(t, err)
	if cert.Subject.String() == "" {
		cert.Subject = pkix.Name{CommonName: name}
	}
	cert.NotBefore, cert.NotAfter = until.Add(-48*time.Hour), until
	cert.BasicConstraintsValid = true
	parent, parentKey := &cert, key
	if by != name {
		parent, parentKey = c.read(t, by)
	}
	signed, err := x509.CreateCertificate(rand.Reader, &cert, parent, &key.PublicKey, parentKey)
	must.Succeed(t, err)
	private, err := x509.MarshalECPrivateKey(key)
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(c.File(name+".pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o600))
	must.Succeed(t, os.WriteFile(c.File(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}), 0o600))
}

func (c Certificates) read(t must.T, name string) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	var blocks [2]*pem.Block
	for i, file := range []string{name + ".pem", name + ".key"} {
		blocks[i], _ = pem.Decode([]byte(must.Read(t, c.File(file))))
	}
	cert, err := x509.ParseCertificate(blocks[0].Bytes)
	must.Succeed(t, err)
	key, err := x509.ParseECPrivateKey(blocks[1].Bytes)
	must.Succeed(t, err)
	return cert, key
}

// serverArgs returns arguments that make a redis-server speak only TLS: to its clients, its
// replicas, the sentinels and the other nodes of a cluster.
func (c Certificates) serverArgs(port string) []string {
	return []string{
		"--port", "0", "--tls-port", port, "--tls-replication", "yes", "--tls-cluster", "yes", "--tls-auth-clients", "no",
		"--tls-cert-file", c.File("server.pem"), "--tls-key-file", c.File("server.key"), "--tls-ca-cert-file", c.File("ca.pem"),
	}
}

// ServeTLS makes a running server also speak TLS on another port, with the certificate of that
// name, and returns the address.
func (c Certificates) ServeTLS(t testing.TB, admin redis.UniversalClient, name string) string {
	t.Helper()
	var err error
	for range 5 { // another process may take the port
		port := strconv.Itoa(FreePort(t))
		if err = admin.Do(t.Context(), "CONFIG", "SET", "tls-port", port, "tls-auth-clients", "no",
			"tls-cert-file", c.File(name+".pem"), "tls-key-file", c.File(name+".key"), "tls-ca-cert-file", c.File("ca.pem")).Err(); err == nil {
			return net.JoinHostPort("127.0.0.1", port)
		}
	}
	t.Fatalf("redis-server does not speak TLS: %v", err)
	return ""
}
