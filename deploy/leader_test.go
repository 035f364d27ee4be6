package deploy

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"
)

// api takes what the script of docs/kubernetes.md sends to the API server.
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
		r.URL.Query().Get("fieldManager") == "" || r.Header.Get("Authorization") != "Bearer sesame" {
		a.t.Errorf("%s %s (%v)", r.Method, r.URL, err)
	}
	switch r.Header.Get("Content-Type") {
	case "application/apply-patch+yaml":
		var slice discoveryv1.EndpointSlice
		if err := yaml.UnmarshalStrict(body, &slice); err != nil || slice.Name != "queue-leader" || slice.Labels[discoveryv1.LabelServiceName] != "queue" ||
			slice.AddressType != discoveryv1.AddressTypeIPv4 || len(slice.Ports) != 1 || *slice.Ports[0].Port != 8080 || r.URL.Query().Get("force") != "true" {
			a.t.Errorf("%s: %v", body, err)
		}
		a.slice = slice
	case "application/json-patch+json":
		var patch []struct{ Op, Path, Value any }
		if err := json.Unmarshal(body, &patch); err != nil || len(patch) != 2 || patch[0].Op != "test" || patch[0].Path != "/endpoints/0/addresses/0" ||
			patch[1].Op != "replace" || patch[1].Path != "/endpoints" {
			a.t.Errorf("%s: %v", body, err)
			return
		}
		if a.slice.Name == "" {
			w.WriteHeader(http.StatusNotFound)
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

// A Service reaches the leader alone: the script of docs/kubernetes.md, with leaderrun,
// says where that is.
func TestLeaderAddress(t *testing.T) {
	page, err := os.ReadFile("../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(regexp.MustCompile("(?ms)^```sh leader-address\n(.*?)^```$").FindSubmatch(page)[1])
	a := &api{t: t}
	server := httptest.NewTLSServer(a)
	defer server.Close()
	dir := t.TempDir()
	program, script, account := filepath.Join(dir, "leaderrun"), filepath.Join(dir, "leader-address"), filepath.Join(dir, "account")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text = strings.NewReplacer("https://kubernetes.default.svc", server.URL, "/var/run/secrets/kubernetes.io/serviceaccount", account).Replace(text)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for file, content := range map[string]string{script: text, account + "/token": "sesame", account + "/namespace": "jobs", account + "/ca.crt": string(ca)} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	pod := func(ip string) *exec.Cmd {
		cmd := exec.Command(program, "--store", "file:"+filepath.Join(dir, "store"), "--key", "queue", "--ttl", "3s", "--wait", "forever",
			"--on-lost", script+" queue", "--on-end", script+" queue", "--", script, "queue", "8080", "sleep", "600")
		cmd.Env = append(os.Environ(), "POD_IP="+ip)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
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

	never := exec.Command(script, "queue")
	never.Env = append(os.Environ(), "POD_IP=10.0.0.1")
	if out, err := never.CombinedOutput(); err != nil {
		t.Errorf("a leader that never said where it is: %v\n%s", err, out)
	}
	one := pod("10.0.0.1")
	reaches("10.0.0.1")
	two := pod("10.0.0.2")
	end(one, os.Interrupt)
	reaches("10.0.0.2") // also when one's hook came last

	end(two, os.Kill)
	if a.address() != "10.0.0.2" {
		t.Errorf("nobody was there to remove it, and it reaches %q", a.address())
	}
	three := pod("10.0.0.3")
	reaches("10.0.0.3")
	end(three, os.Interrupt)
	reaches("")
}
