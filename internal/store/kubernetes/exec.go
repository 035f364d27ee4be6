package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// plugin is a command that prints the login: a credential plugin, as kubectl's documentation
// calls it (client.authentication.k8s.io).
type plugin struct {
	Version string `yaml:"apiVersion"`
	Command string
	Args    []string
	Env     []struct{ Name, Value string }
	Mode    string `yaml:"interactiveMode"`
	Cluster bool   `yaml:"provideClusterInfo"`
}

var pluginVersions = []string{"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"}

// check refuses a plugin that needs a person, or needs more than leaderrun gives it.
func (p *plugin) check() error {
	if p.Command == "" || p.Mode == "Always" || p.Cluster || !slices.Contains(pluginVersions, p.Version) {
		return unable("an exec plugin of another form")
	}
	return nil
}

// credential is a plugin's answer.
type credential struct {
	Token   string    `json:"token"`
	Cert    string    `json:"clientCertificateData"` // PEM
	Key     string    `json:"clientKeyData"`
	Expires time.Time `json:"expirationTimestamp"`
}

// validFor reports whether the credential is still valid after d.
func (c *credential) validFor(d time.Duration) bool {
	return c != nil && (c.Expires.IsZero() || time.Until(c.Expires) > d) //nolint:forbidigo // Expires is wall time
}

// credentials keep the plugin's last answer until it expires or is no longer accepted.
type credentials struct {
	mu      sync.Mutex
	last    *credential
	running *pluginRun // nil if the plugin does not run
}

// pluginRun is one run of the plugin.
type pluginRun struct {
	over   chan struct{} // closed when it has ended
	answer *credential
	err    error
}

func (c *credentials) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = nil
}

const (
	// ahead is how long before its expiry a credential is replaced. It is still used
	// meanwhile, so a leader, which renews more often than that at the usual TTLs, never
	// waits for the plugin.
	ahead = 30 * time.Second
	// pluginLimit is how long a plugin may take.
	pluginLimit = 30 * time.Second
)

// get returns the plugin's answer. The plugin runs once at a time, and goes on after the end of
// the request that started it: some plugins take longer than a renewal may, and then the
// next renewal finds the answer.
func (c *credentials) get(ctx context.Context, p *plugin, dir string) (*credential, error) {
	c.mu.Lock()
	last, run := c.last, c.running
	if !last.validFor(ahead) && run == nil {
		run = &pluginRun{over: make(chan struct{})}
		c.running = run
		go c.ask(run, p, dir)
	}
	c.mu.Unlock()
	if last.validFor(0) {
		return last, nil
	}
	select {
	case <-run.over:
		return run.answer, run.err
	case <-ctx.Done():
		return nil, &lease.StoreError{Err: errors.New("the kubeconfig's plugin " + p.Command + " has not answered yet"), Hint: hintPlugin}
	}
}

func (c *credentials) ask(run *pluginRun, p *plugin, dir string) {
	ctx, cancel := context.WithTimeout(context.Background(), pluginLimit)
	defer cancel()
	run.answer, run.err = p.run(ctx, dir)
	c.mu.Lock()
	if c.running = nil; run.err == nil {
		c.last = run.answer
	}
	c.mu.Unlock()
	close(run.over)
}

const hintPlugin = "run it by hand: kubectl auth whoami does"

// who returns the present access with the plugin's login, if there is a plugin.
func (s *Store) who(ctx context.Context) (access, error) {
	a := s.access()
	if a.plugin == nil {
		return a, nil
	}
	login, err := s.credentials.get(ctx, a.plugin, a.dir)
	if err != nil {
		return a, err
	}
	a.token = login.Token
	if login.Cert != "" {
		a.cert, a.key = []byte(login.Cert), []byte(login.Key)
	}
	return a, nil
}

// run runs the plugin. If that fails, the error shows what it wrote to stderr.
func (p *plugin) run(ctx context.Context, dir string) (*credential, error) {
	name := p.Command
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	cmd := exec.CommandContext(ctx, name, p.Args...)
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), `KUBERNETES_EXEC_INFO={"apiVersion":"`+p.Version+`","kind":"ExecCredential","spec":{"interactive":false}}`)
	for _, v := range p.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil && !errors.Is(err, syscall.ECHILD) { // process 1 may reap it first
		said := strings.TrimSpace(lease.Cut(stderr.String(), 300))
		return nil, refusal("the kubeconfig's plugin "+p.Command+" failed: "+err.Error()+" "+said, hintPlugin)
	}
	var answer struct {
		Kind   string
		Status credential
	}
	if json.Unmarshal(text, &answer) != nil || answer.Kind != "ExecCredential" || answer.Status.Token == "" && answer.Status.Cert == "" {
		return nil, refusal("the kubeconfig's plugin "+p.Command+" says nothing that is a token or a certificate", hintPlugin)
	}
	return &answer.Status, nil
}
