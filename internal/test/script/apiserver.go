//go:build linux

package script

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
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
	return startAPIServerOn(t, StartEtcd(t), NewCertificates(t, t.TempDir()))
}

// startAPIServerOn starts one more API server on an etcd. It accepts users by the same
// certificates.
func startAPIServerOn(t testing.TB, etcd *EtcdServer, certs Certificates) *APIServer {
	t.Helper()
	program, err := apiserver()
	if err != nil && os.Getenv("CI") == "" {
		t.Skip(err) // its modules are not on this machine
	}
	must.Succeed(t, err)
	s := &APIServer{Etcd: etcd, Certs: certs}
	s.process = process{t: t, name: program, says: []string{"serving leases"}}
	t.Cleanup(s.Kill)
	for range 5 { // another process may take the port
		s.Addr = loopback(t)
		s.args = []string{
			"-etcd", "http://" + etcd.Addr, "-addr", s.Addr,
			"-cert", certs.File("server.pem"), "-key", certs.File("server.key"), "-ca", certs.File("ca.pem"),
		}
		if s.start() {
			return s
		}
	}
	t.Fatalf("the API server does not start:\n%s", s.out)
	return nil
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

// apiserver returns the program, which scripts/test builds; otherwise it is built here.
var apiserver = sync.OnceValues(func() (string, error) { return built("apiserver", "APISERVER", ".") })

// built returns the program of a package that the module internal/test/NAME knows: that which a
// variable names, or else one that is built here, and that other tests use, too.
func built(name, variable, pkg string) (string, error) {
	if program := os.Getenv(variable); program != "" {
		return program, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	module, err := moduleOf("internal/test/" + name)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "leaderrun-test")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", err
	}
	program := filepath.Join(dir, name)
	build := exec.Command("go", "build", "-trimpath", "-o", program, pkg)
	build.Dir = module
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build of %s: %w: %s", name, err, out)
	}
	return program, nil
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
