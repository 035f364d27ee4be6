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

// plugin is a command that says who asks: kubectl's documentation calls it a credential
// plugin (client.authentication.k8s.io).
type plugin struct {
	Version string `yaml:"apiVersion"`
	Command string
	Args    []string
	Env     []struct{ Name, Value string }
	Mode    string `yaml:"interactiveMode"`
	Cluster bool   `yaml:"provideClusterInfo"`
}

var pluginVersions = []string{"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"}

// check refuses what cannot be run without a person, or needs more than is known here.
func (p *plugin) check() error {
	if p.Command == "" || p.Mode == "Always" || p.Cluster || !slices.Contains(pluginVersions, p.Version) {
		return unable("an exec plugin of another form")
	}
	return nil
}

// credential is what a plugin said.
type credential struct {
	Token   string    `json:"token"`
	Cert    string    `json:"clientCertificateData"` // PEM
	Key     string    `json:"clientKeyData"`
	Expires time.Time `json:"expirationTimestamp"`
}

// lives reports whether it does not expire within a time.
func (c *credential) lives(rest time.Duration) bool {
	return c != nil && (c.Expires.IsZero() || time.Until(c.Expires) > rest) //nolint:forbidigo // it expires by the wall clock
}

// credentials keep what the plugin has said until that expires, or is not accepted any
// more.
type credentials struct {
	mu   sync.Mutex
	last *credential
	now  *asked // nil: the plugin does not run
}

// asked is one run of the plugin.
type asked struct {
	over chan struct{} // closed when it has ended
	said *credential
	err  error
}

func (c *credentials) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = nil
}

const (
	// ahead is how long before it expires a credential is replaced. Meanwhile it counts:
	// a leader renews more often than that at the usual TTLs, and waits for no plugin.
	ahead = 30 * time.Second
	// pluginLimit is how long a plugin may take.
	pluginLimit = 30 * time.Second
)

// get returns what the plugin says. Only one runs at a time, and it outlives the request
// that needed it first: a renewal has less time than some plugins take, and the next one
// finds what was said.
func (c *credentials) get(ctx context.Context, p *plugin, dir string) (*credential, error) {
	c.mu.Lock()
	last, now := c.last, c.now
	if !last.lives(ahead) && now == nil {
		now = &asked{over: make(chan struct{})}
		c.now = now
		go c.ask(now, p, dir)
	}
	c.mu.Unlock()
	if last.lives(0) {
		return last, nil
	}
	select {
	case <-now.over:
		return now.said, now.err
	case <-ctx.Done():
		return nil, &lease.StoreError{Err: errors.New("the kubeconfig's plugin " + p.Command + " has not answered yet"), Hint: hintPlugin}
	}
}

func (c *credentials) ask(now *asked, p *plugin, dir string) {
	ctx, cancel := context.WithTimeout(context.Background(), pluginLimit)
	defer cancel()
	now.said, now.err = p.run(ctx, dir)
	c.mu.Lock()
	if c.now = nil; now.err == nil {
		c.last = now.said
	}
	c.mu.Unlock()
	close(now.over)
}

const hintPlugin = "run it by hand: kubectl auth whoami does"

// who is access, with what a plugin says.
func (s *Store) who(ctx context.Context) (access, error) {
	a := s.access()
	if a.plugin == nil {
		return a, nil
	}
	is, err := s.said.get(ctx, a.plugin, a.dir)
	if err != nil {
		return a, err
	}
	a.token = is.Token
	if is.Cert != "" {
		a.cert, a.key = []byte(is.Cert), []byte(is.Key)
	}
	return a, nil
}

// run asks the plugin. What it says on stderr is shown if it fails.
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
	if err != nil && !errors.Is(err, syscall.ECHILD) { // process 1 reaps whatever ends
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
