package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network"
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

// ahead is how long before its expiry a credential is replaced.
const ahead = 30 * time.Second

const hintPlugin = "run it by hand: kubectl auth whoami does"

// who returns the present access with the plugin's login, if there is a plugin.
func (s *Store) who(ctx context.Context) (access, error) {
	a := s.access()
	if a.plugin == nil {
		return a, nil
	}
	login, err := s.credentials.Get(ctx, ahead, func(ctx context.Context) (credential, time.Time, error) { return a.plugin.run(ctx, a.dir) })
	if err != nil && errors.Is(err, ctx.Err()) {
		err = &lease.StoreError{Err: errors.New("the kubeconfig's plugin " + a.plugin.Command + " has not answered yet"), Hint: hintPlugin}
	}
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
func (p *plugin) run(ctx context.Context, dir string) (c credential, expires time.Time, err error) {
	name := p.Command
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	cmd := exec.CommandContext(ctx, name, p.Args...)
	cmd.Env = append(os.Environ(), `KUBERNETES_EXEC_INFO={"apiVersion":"`+p.Version+`","kind":"ExecCredential","spec":{"interactive":false}}`)
	for _, v := range p.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	text, err := network.Output(cmd)
	if err != nil {
		return c, expires, refusal("the kubeconfig's plugin "+p.Command+" failed: "+err.Error(), hintPlugin)
	}
	var answer struct {
		Kind   string
		Status credential
	}
	if json.Unmarshal(text, &answer) != nil || answer.Kind != "ExecCredential" || answer.Status.Token == "" && answer.Status.Cert == "" {
		return c, expires, refusal("the kubeconfig's plugin "+p.Command+" says nothing that is a token or a certificate", hintPlugin)
	}
	return answer.Status, answer.Status.Expires, nil
}
