//go:build linux

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/faultnet"
)

var kubernetesWorld = world{
	name: "kubernetes", apart: membersApart, ttl: 10 * time.Second, // it takes no shorter one
	has: []need{proxied, behind},
	open: func(at site) (backend, error) {
		s := &apiServer{}
		if err := s.open(at); err != nil {
			s.stop()
			return nil, err
		}
		return s, nil
	},
}

// apiServer is a Kubernetes API server (internal/test/apiserver), on an etcd of its own.
type apiServer struct {
	node
	dir   string
	addr  string
	etcd  etcds
	cable *faultnet.Proxy // between the two
}

func (s *apiServer) open(at site) error {
	s.dir = at.dir
	if err := s.etcd.open(at, 1); err != nil {
		return err
	}
	var err error
	if s.cable, err = faultnet.ListenOn(at.addr, s.etcd.members[0].client); err != nil {
		return err
	}
	cert, key, err := certificate(at.dir)
	if err != nil {
		return err
	}
	ports, err := freePorts(at.addr, 1)
	if err != nil {
		return err
	}
	s.addr = net.JoinHostPort(at.addr, ports[0])
	log, err := os.Create(filepath.Join(at.dir, "apiserver.log"))
	if err != nil {
		return err
	}
	s.env = os.Environ()
	s.command = func() *exec.Cmd {
		cmd := exec.Command("apiserver", "-etcd", "http://"+s.cable.Addr(), "-addr", s.addr, "-cert", cert, "-key", key, "-ca", cert)
		cmd.Stderr = log // as long as this program runs
		return cmd
	}
	return s.start()
}

// certificate writes one that nobody has signed, for all servers of a worker.
func certificate(dir string) (cert, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(7 * 24 * time.Hour)}
	public, err := x509.CreateCertificate(rand.Reader, c, c, &private.PublicKey, private)
	if err != nil {
		return "", "", err
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return "", "", err
	}
	cert, key = filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key")
	if err := os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: public}), 0o600); err != nil {
		return "", "", err
	}
	return cert, key, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), 0o600)
}

func (s *apiServer) servers() []string { return []string{s.addr} }

// url names a context of a kubeconfig, which is called by the server's address. Nobody
// checks the server's certificate.
func (s *apiServer) url(proxies []string) string {
	addr := append(proxies, s.addr)[0]
	_, port, _ := net.SplitHostPort(addr)
	file := filepath.Join(s.dir, "kubeconfig-"+port)
	if _, err := os.Stat(file); err != nil {
		text := fmt.Sprintf(`users: [{name: leaderrun, user: {token: leaderrun}}]
contexts: [{name: %q, context: {cluster: %[1]q, user: leaderrun}}]
clusters: [{name: %[1]q, cluster: {server: "https://%[1]s", insecure-skip-tls-verify: true}}]
`, addr)
		_ = os.WriteFile(file, []byte(text), 0o600) // without it leaderrun says that there is none
		addKubeconfig(file)
	}
	return "kubernetes://" + addr + "/jobs"
}

var environment sync.Mutex

// addKubeconfig adds a file to those of this process and of all that it starts.
func addKubeconfig(file string) {
	environment.Lock()
	defer environment.Unlock()
	_ = os.Setenv("KUBECONFIG", file+string(filepath.ListSeparator)+os.Getenv("KUBECONFIG"))
}

func (s *apiServer) kill() error   { return s.node.kill() }
func (s *apiServer) freeze() error { s.signal(syscall.SIGSTOP); return nil }
func (s *apiServer) cont() error   { s.signal(syscall.SIGCONT); return answers(s) }

func (s *apiServer) start() error {
	if err := s.launch(); err != nil {
		return err
	}
	return answers(s)
}

// without stops the etcd, kills it, or lets nothing through to it. It is over when the
// API server answers: one whose connection was lost without a word takes up to 40 s to
// find out (the keepalive of its client of etcd).
func (s *apiServer) without(how string) (undo func() error, err error) {
	back := func() error { return s.cable.Set(faultnet.Pass) }
	switch how {
	case "stop":
		back, err = s.etcd.cont, s.etcd.freeze()
	case "kill":
		back, err = s.etcd.start, s.etcd.kill()
	default:
		err = s.cable.Set(faultnet.Swallow)
	}
	return func() error { return errors.Join(back(), answers(s)) }, err
}

func (s *apiServer) stop() {
	s.end()
	if s.cable != nil {
		s.cable.Close()
	}
	s.etcd.stop()
}
