//go:build linux

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/leaderrun/leaderrun/internal/test/faultnet"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// apiServer is a Kubernetes API server (internal/test/apiserver), on an etcd of its own.
type apiServer struct {
	leads
	dir, addr string
	etcd      *etcds
	cable     *faultnet.Proxy // between API server and etcd
}

func openKubernetes(at *rig) backend {
	s := &apiServer{dir: at.Dir, etcd: openEtcds(at, 1)}
	etcd := s.etcd.members[0]
	var err error
	s.cable, err = faultnet.ListenOn(at.Addr, etcd.Addr)
	must.Check(err)
	at.Cleanup(s.cable.Close)
	server := script.StartAPIServerOn(at, etcd, s.cable.Addr())
	s.addr = server.Addr
	s.leads = leads{leading: func() script.Server { return server }, ready: func() { answers(s) }}
	return s
}

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
		must.Check(os.WriteFile(file, []byte(text), 0o600))
		addKubeconfig(file)
	}
	return "kubernetes://" + addr + "/jobs"
}

var environment sync.Mutex

// addKubeconfig adds a file to KUBECONFIG, for this process and its children.
func addKubeconfig(file string) {
	environment.Lock()
	defer environment.Unlock()
	must.Check(os.Setenv("KUBECONFIG", file+string(filepath.ListSeparator)+os.Getenv("KUBECONFIG")))
}

// without stops the etcd, kills it, or lets nothing through to it. The fault is over when the
// API server answers: if its connection was lost silently, it takes up to 40 s to notice
// (the keepalive of its etcd client).
func (s *apiServer) without(how string) (undo func()) {
	back := func() { must.Check(s.cable.Set(faultnet.Pass)) }
	switch how {
	case "stop":
		back = s.etcd.cont
		s.etcd.freeze()
	case "kill":
		back = s.etcd.start
		s.etcd.kill()
	default:
		must.Check(s.cable.Set(faultnet.Swallow))
	}
	return func() { back(); answers(s) }
}
