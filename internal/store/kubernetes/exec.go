package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

// credentials keep what the plugin has said until that expires, or is not accepted any
// more.
type credentials struct {
	mu   sync.Mutex
	last *credential
}

func (c *credentials) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = nil
}

// who is access, with what a plugin says. Only one runs at a time.
func (s *Store) who(ctx context.Context) (access, error) {
	a := s.access()
	if a.plugin == nil {
		return a, nil
	}
	s.said.mu.Lock()
	defer s.said.mu.Unlock()
	const early = 10 * time.Second                                                              // before it expires
	if is := s.said.last; is == nil || !is.Expires.IsZero() && time.Until(is.Expires) < early { //nolint:forbidigo // it expires by the wall clock
		var err error
		if s.said.last, err = a.plugin.run(ctx, a.dir); err != nil {
			s.said.last = nil
			return a, err
		}
	}
	a.token = s.said.last.Token
	if s.said.last.Cert != "" {
		a.cert, a.key = []byte(s.said.last.Cert), []byte(s.said.last.Key)
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
	if err != nil {
		said := strings.TrimSpace(lease.Cut(stderr.String(), 300))
		return nil, refusal("the kubeconfig's plugin "+p.Command+" failed: "+err.Error()+" "+said, "run it by hand: kubectl auth whoami does")
	}
	var answer struct {
		Kind   string
		Status credential
	}
	if json.Unmarshal(text, &answer) != nil || answer.Kind != "ExecCredential" || answer.Status.Token == "" && answer.Status.Cert == "" {
		return nil, refusal("the kubeconfig's plugin "+p.Command+" says nothing that is a token or a certificate", "run it by hand: kubectl auth whoami does")
	}
	return &answer.Status, nil
}
