//go:build linux

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/faultnet"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

var kubernetesWorld = world{
	name: "kubernetes", apart: membersApart, ttl: 10 * time.Second, // the store's shortest
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
	leads[*node]
	process node
	dir     string
	addr    string
	etcd    etcds
	cable   *faultnet.Proxy // between API server and etcd
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
	certs := script.NewCertificates(broken{}, at.dir)
	cert := certs.File("server.pem")
	ports, err := freePorts(at.addr, 1)
	if err != nil {
		return err
	}
	s.addr = net.JoinHostPort(at.addr, ports[0])
	log, err := os.Create(filepath.Join(at.dir, "apiserver.log"))
	if err != nil {
		return err
	}
	s.leads = alone(&s.process, s)
	s.process.env = os.Environ()
	s.process.command = func() *exec.Cmd {
		cmd := exec.Command("apiserver", "-etcd", "http://"+s.cable.Addr(), "-addr", s.addr, "-cert", cert, "-key", certs.File("server.key"), "-ca", cert)
		cmd.Stderr = log
		return cmd
	}
	return s.start()
}

// broken ends this program if certificates cannot be written.
type broken struct{}

func (broken) Helper()           {}
func (broken) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

func (s *apiServer) servers() []string { return []string{s.addr} }

// url returns the address of a context in a kubeconfig. Its name is the server's address, and
// the server's certificate is not checked.
func (s *apiServer) url(proxies []string) string {
	addr := append(proxies, s.addr)[0]
	_, port, _ := net.SplitHostPort(addr)
	file := filepath.Join(s.dir, "kubeconfig-"+port)
	if _, err := os.Stat(file); err != nil {
		text := fmt.Sprintf(`users: [{name: leaderrun, user: {token: leaderrun}}]
contexts: [{name: %q, context: {cluster: %[1]q, user: leaderrun}}]
clusters: [{name: %[1]q, cluster: {server: "https://%[1]s", insecure-skip-tls-verify: true}}]
`, addr)
		_ = os.WriteFile(file, []byte(text), 0o600) // if it is missing leaderrun says so
		addKubeconfig(file)
	}
	return "kubernetes://" + addr + "/jobs"
}

var environment sync.Mutex

// addKubeconfig adds a file to KUBECONFIG, for this process and its children.
func addKubeconfig(file string) {
	environment.Lock()
	defer environment.Unlock()
	_ = os.Setenv("KUBECONFIG", file+string(filepath.ListSeparator)+os.Getenv("KUBECONFIG"))
}

// without stops the etcd, kills it, or lets nothing through to it. The fault is over when the
// API server answers: if its connection was lost silently, it takes up to 40 s to notice
// (the keepalive of its etcd client).
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
	s.process.end()
	if s.cable != nil {
		s.cable.Close()
	}
	s.etcd.stop()
}
