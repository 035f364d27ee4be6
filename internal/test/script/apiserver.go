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
)

// APIServer is a Kubernetes API server of one test that has Leases and nothing else
// (internal/test/apiserver says how it differs from a real one), on an etcd. It listens
// on loopback only and is gone with the test, also when the test process is killed.
type APIServer struct {
	Addr  string // 127.0.0.1:PORT
	Etcd  *EtcdServer
	Certs Certificates
	process
}

// StartAPIServer starts one on an etcd of its own and waits until it serves. The first
// test builds it, which takes minutes once per build cache. Without etcd, or what it is
// built from, the test is skipped; where CI is set it fails.
func StartAPIServer(t testing.TB) *APIServer {
	t.Helper()
	return StartAPIServerOn(t, StartEtcd(t), NewCertificates(t, t.TempDir()))
}

// StartAPIServerOn starts one more on an etcd, which knows the users by the same
// certificates.
func StartAPIServerOn(t testing.TB, etcd *EtcdServer, certs Certificates) *APIServer {
	t.Helper()
	program, err := apiserver()
	if err != nil && os.Getenv("CI") == "" {
		t.Skip(err) // its modules are not on this machine
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &APIServer{Etcd: etcd, Certs: certs}
	s.process = process{t: t, name: program, says: []string{"serving leases"}}
	t.Cleanup(s.Kill)
	for range 5 { // another process may take the port by its number
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

// Kubeconfig writes one for a user, who is known by a token, and returns its path.
func (s *APIServer) Kubeconfig(user string) string {
	s.t.Helper()
	return WriteKubeconfig(s.t, s.Addr, s.Certs, user)
}

// Rival is a candidate by client-go's leader election, with a lease of 6 s.
type Rival struct{ process }

// StartRival starts one that wants a lease.
func (s *APIServer) StartRival(name string) *Rival {
	s.t.Helper()
	r := &Rival{process{t: s.t, name: s.name, args: []string{"-rival", name, "-kubeconfig", s.Kubeconfig("leaderrun")}}}
	s.t.Cleanup(r.Kill)
	r.launch()
	return r
}

// Said reports whether it has said so: "leads", "leads no more", or "sees HOLDER".
func (r *Rival) Said(line string) bool { return strings.Contains("\n"+r.out.String(), "\n"+line+"\n") }

// WriteKubeconfig writes one for a server at addr.
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
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// apiserver is the program. scripts/test has built it; else it is built here, where
// other tests find it, too.
var apiserver = sync.OnceValues(func() (string, error) {
	if built := os.Getenv("APISERVER"); built != "" {
		return built, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	module, err := moduleOf("internal/test/apiserver")
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
	program := filepath.Join(dir, "apiserver")
	build := exec.Command("go", "build", "-trimpath", "-o", program, ".")
	build.Dir = module
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build of the API server: %w: %s", err, out)
	}
	return program, nil
})

// moduleOf finds a folder of the repository, from wherever a test runs in it.
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
