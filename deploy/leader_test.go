package deploy

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"
)

// api takes what leader-address.sh sends to the API server.
type api struct {
	t     *testing.T
	mu    sync.Mutex
	slice discoveryv1.EndpointSlice
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPatch || r.URL.Path != "/apis/discovery.k8s.io/v1/namespaces/jobs/endpointslices/queue-leader" ||
		r.Header.Get("Authorization") != "Bearer sesame" {
		a.t.Errorf("%s %s (%v)", r.Method, r.URL, err)
	}
	switch r.Header.Get("Content-Type") {
	case "application/merge-patch+json":
		if err := yaml.UnmarshalStrict(body, &a.slice); err != nil || len(a.slice.Endpoints) != 1 {
			a.t.Errorf("%s: %v", body, err)
		}
	case "application/json-patch+json":
		var patch []struct{ Op, Path, Value any }
		if err := json.Unmarshal(body, &patch); err != nil || len(patch) != 2 || patch[0].Op != "test" || patch[0].Path != "/endpoints/0/addresses/0" ||
			patch[1].Op != "replace" || patch[1].Path != "/endpoints" {
			a.t.Errorf("%s: %v", body, err)
			return
		}
		if len(a.slice.Endpoints) == 0 || a.slice.Endpoints[0].Addresses[0] != patch[0].Value {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		a.slice.Endpoints = nil
	default:
		w.WriteHeader(http.StatusUnsupportedMediaType)
	}
}

func (a *api) address() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.slice.Endpoints) == 0 {
		return ""
	}
	return a.slice.Endpoints[0].Addresses[0]
}

// A Service reaches the leader alone: leader-address.sh, beside leaderrun, says where that is.
// scripts/try-kubernetes does it with the real API server.
func TestLeaderAddress(t *testing.T) {
	script, err := os.ReadFile("kubernetes/service/leader-address.sh")
	if err != nil {
		t.Fatal(err)
	}
	a := &api{t: t}
	server := httptest.NewTLSServer(a)
	defer server.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	free.Close()
	dir := t.TempDir()
	program, account := filepath.Join(dir, "leaderrun"), filepath.Join(dir, "account")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text := strings.NewReplacer("https://kubernetes.default.svc", server.URL, "/var/run/secrets/kubernetes.io/serviceaccount", account,
		":9090", fmt.Sprint(":", port)).Replace(string(script))
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for file, content := range map[string]string{dir + "/script": text, account + "/token": "sesame", account + "/namespace": "jobs", account + "/ca.crt": string(ca)} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	start := func(ip, name string, args ...string) *exec.Cmd {
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), "POD_IP="+ip)
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	consumer := func(ip string) *exec.Cmd {
		return start(ip, program, "--store", "file:"+filepath.Join(dir, "store"), "--key", "queue", "--ttl", "3s", "--wait", "forever",
			"--metrics-listen", fmt.Sprint(ip, ":", port), "--", "sleep", "600")
	}
	sidecar := func(ip string) *exec.Cmd { return start(ip, "/bin/sh", dir+"/script", "queue-leader") }
	reaches := func(ip string) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); a.address() != ip; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("it reaches %q, want %q", a.address(), ip)
			}
		}
	}
	end := func(cmd *exec.Cmd, s os.Signal) {
		if err := cmd.Process.Signal(s); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it is told to end
	}

	one, beside := consumer("127.0.0.1"), sidecar("127.0.0.1")
	reaches("127.0.0.1")
	two, beside2 := consumer("127.0.0.2"), sidecar("127.0.0.2")
	end(one, os.Interrupt)
	end(beside, syscall.SIGTERM)
	reaches("127.0.0.2") // also if one's came last

	end(two, os.Kill)
	reaches("")
	two = consumer("127.0.0.2")
	reaches("127.0.0.2")
	end(beside2, syscall.SIGTERM) // the pod ends
	reaches("")
	end(two, os.Interrupt)
}
