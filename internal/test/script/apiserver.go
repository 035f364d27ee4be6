//go:build linux

package script

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// APIServer is one test's Kubernetes API server, on an etcd. It only has Leases
// (internal/test/apiserver says how it differs from a real one). It listens only on loopback
// and ends with the test, even if the test process is killed.
type APIServer struct {
	Addr  string // 127.0.0.1:PORT
	Etcd  *EtcdServer
	Certs Certificates
	process
}

// StartAPIServer starts an API server on its own etcd, and waits until it serves. The first
// test builds it, which takes minutes once per build cache. Without etcd or the modules
// that it needs the test is skipped, or fails if CI is set.
func StartAPIServer(t testing.TB) *APIServer {
	t.Helper()
	return StartAPIServerOn(t, StartEtcd(t), "")
}

// StartAPIServerOn starts an API server on an etcd, which it reaches at an address of its own, or
// at the etcd's.
func StartAPIServerOn(t testing.TB, etcd *EtcdServer, by string) *APIServer {
	t.Helper()
	s := &APIServer{Addr: freeAddr(t), Etcd: etcd, Certs: NewCertificates(t, t.TempDir())}
	s.process = process{t: t, name: built(t, "apiserver", "APISERVER", "."), says: []string{"serving leases"}}
	t.Cleanup(s.Kill)
	s.args = []string{
		"-etcd", "http://" + cmp.Or(by, etcd.Addr), "-addr", s.Addr,
		"-cert", s.Certs.File("server.pem"), "-key", s.Certs.File("server.key"), "-ca", s.Certs.File("ca.pem"),
	}
	s.mustStart()
	return s
}

// Kubeconfig writes a kubeconfig for a user with a token, and returns its path.
func (s *APIServer) Kubeconfig(user string) string {
	s.t.Helper()
	return WriteKubeconfig(s.t, s.Addr, s.Certs, user)
}

// Rival is a candidate with client-go's leader election and a lease of 6 s.
type Rival struct{ process }

// StartRival starts a rival for the lease with that name.
func (s *APIServer) StartRival(name string) *Rival {
	s.t.Helper()
	r := &Rival{process{t: s.t, name: s.name, args: []string{"-rival", name, "-kubeconfig", s.Kubeconfig("leaderrun")}}}
	s.t.Cleanup(r.Kill)
	r.launch()
	return r
}

// Said reports whether the rival has printed the line: "leads", "leads no more", or "sees
// HOLDER".
func (r *Rival) Said(line string) bool { return strings.Contains("\n"+r.out.String(), "\n"+line+"\n") }

// WriteKubeconfig writes a kubeconfig for a server at addr, and returns its path.
func WriteKubeconfig(t testing.TB, addr string, certs Certificates, user string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: test, namespace: jobs}}]
clusters: [{name: test, cluster: {server: "https://%s", certificate-authority: %s}}]
users: [{name: test, user: {token: %s}}]
`, addr, certs.File("ca.pem"), user)
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// built returns the program of a package that the module internal/test/NAME knows: that which a
// variable names, as scripts/test builds it, or else one that is built here, and that other tests
// use, too. If its modules are not on this machine the test is skipped, or fails if CI is set.
func built(t testing.TB, name, variable, pkg string) string {
	t.Helper()
	if program := os.Getenv(variable); program != "" {
		return program
	}
	cache, err := os.UserCacheDir()
	must.Succeed(t, err)
	module, err := moduleOf("internal/test/" + name)
	must.Succeed(t, err)
	dir := filepath.Join(cache, "leaderrun-test")
	must.Succeed(t, os.MkdirAll(dir, 0o700))
	lock, err := os.Create(filepath.Join(dir, "lock"))
	must.Succeed(t, err)
	defer lock.Close()
	must.Succeed(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	program := filepath.Join(dir, name)
	build := exec.Command("go", "build", "-trimpath", "-o", program, pkg)
	build.Dir = module
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		missing(t, fmt.Sprintf("build of %s: %v: %s", name, err, out))
	}
	return program
}

// moduleOf returns the path of a folder of the repository, from any test's folder.
func moduleOf(folder string) (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, folder, "go.mod")); err == nil {
			return filepath.Join(dir, folder), nil
		}
		if dir == filepath.Dir(dir) {
			err = errors.Join(fs.ErrNotExist, errors.New(folder))
			return "", err
		}
	}
	return "", err
}
