package kubernetes

import (
	"cmp"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// kubeconfig has the fields of a kubeconfig that leaderrun reads; see kubectl's documentation.
// Fields of the type any are only refused.
type kubeconfig struct {
	Current  string `yaml:"current-context"`
	Contexts []struct {
		Name    string
		Context struct{ Cluster, User, Namespace string }
	}
	Clusters []struct {
		Name    string
		Cluster cluster
	}
	Users []struct {
		Name string
		User user
	}
}

type cluster struct {
	Server   string
	CA       string `yaml:"certificate-authority"`
	CAData   string `yaml:"certificate-authority-data"`
	Insecure bool   `yaml:"insecure-skip-tls-verify"`
	Name     string `yaml:"tls-server-name"`
	Proxy    any    `yaml:"proxy-url"`
	dir      string // of the file, to which its paths are relative
}

type user struct {
	Cert      string `yaml:"client-certificate"`
	CertData  string `yaml:"client-certificate-data"`
	Key       string `yaml:"client-key"`
	KeyData   string `yaml:"client-key-data"`
	Token     string
	TokenFile string  `yaml:"tokenFile"`
	Name      any     `yaml:"username"`
	As        any     `yaml:"as"`
	Exec      *plugin `yaml:"exec"`
	Provider  any     `yaml:"auth-provider"`
	dir       string
}

const hintConfig = "see kubectl config view; KUBECONFIG names its files, ~/.kube/config is the usual one"

// fromKubeconfig reads the files that KUBECONFIG names, or the usual one. If several files
// say the same thing differently, the first one counts.
func (p place) fromKubeconfig() (access, error) {
	files := p.files
	if len(files) == 0 {
		home, err := os.UserHomeDir()
		if err != nil {
			return access{}, refusal("no kubeconfig: "+err.Error(), hintConfig)
		}
		files = []string{filepath.Join(home, ".kube", "config")}
	}
	var all kubeconfig
	found := false
	for _, file := range files {
		one, err := readKubeconfig(file)
		if errors.Is(err, fs.ErrNotExist) { // like kubectl
			continue
		}
		if err != nil {
			return access{}, refusal("the kubeconfig cannot be read: "+err.Error(), hintConfig)
		}
		found = true
		all.Current = cmp.Or(all.Current, one.Current)
		all.Contexts = append(all.Contexts, one.Contexts...)
		all.Clusters = append(all.Clusters, one.Clusters...)
		all.Users = append(all.Users, one.Users...)
	}
	if !found {
		return access{}, refusal("this is no pod, and there is no kubeconfig "+strings.Join(files, " or "), hintConfig)
	}
	return all.access(p)
}

func readKubeconfig(file string) (one kubeconfig, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return one, err
	}
	if yaml.Unmarshal(text, &one) != nil {
		return one, errors.New(file + " is no YAML, or no kubeconfig") // the error itself may repeat a password
	}
	dir := filepath.Dir(file)
	for i := range one.Clusters {
		one.Clusters[i].Cluster.dir = dir
	}
	for i := range one.Users {
		one.Users[i].User.dir = dir
	}
	return one, nil
}

// access returns the access of a context.
func (k *kubeconfig) access(p place) (access, error) {
	name := cmp.Or(p.context, k.Current)
	if name == "" {
		return access{}, refusal("the kubeconfig has no current context", "kubectl config use-context, or name one: kubernetes://CONTEXT/NAMESPACE")
	}
	for _, c := range k.Contexts {
		if c.Name != name {
			continue
		}
		a := access{context: name, namespace: cmp.Or(p.namespace, c.Context.Namespace, "default")}
		for _, cluster := range k.Clusters {
			if cluster.Name == c.Context.Cluster {
				if err := cluster.Cluster.read(&a); err != nil {
					return a, err
				}
				break
			}
		}
		if a.server == "" {
			return a, refusal("the kubeconfig has no server for the context "+name, hintConfig)
		}
		for _, user := range k.Users {
			if user.Name == c.Context.User {
				return a, user.User.read(&a)
			}
		}
		return a, nil
	}
	return access{}, refusal("the kubeconfig has no context "+name, "kubectl config get-contexts lists those that it has")
}

func (c cluster) read(a *access) (err error) {
	a.server, a.name, a.insecure = strings.TrimSuffix(c.Server, "/"), c.Name, c.Insecure
	switch {
	case !strings.HasPrefix(a.server, "https://"):
		return refusal("the server in the kubeconfig is not one of https", "leaderrun does not send a token in the clear: name an https:// server")
	case c.Proxy != nil:
		return refusal("the kubeconfig wants a proxy (proxy-url), which leaderrun does not use", "name a server that can be reached without")
	}
	a.ca, err = dataOr(c.CAData, c.CA, c.dir)
	return err
}

func (u user) read(a *access) (err error) {
	switch {
	case u.Provider != nil:
		return unable("auth-provider")
	case u.As != nil:
		return unable("as")
	case u.Name != nil:
		return unable("username")
	}
	if u.Exec != nil {
		a.plugin, a.dir = u.Exec, u.dir
		return u.Exec.check()
	}
	if a.cert, err = dataOr(u.CertData, u.Cert, u.dir); err != nil {
		return err
	}
	if a.key, err = dataOr(u.KeyData, u.Key, u.dir); err != nil {
		return err
	}
	token := []byte(u.Token)
	if u.TokenFile != "" { // takes precedence over the token, and may change
		token, err = dataOr("", u.TokenFile, u.dir)
	}
	a.token = strings.TrimSpace(string(token))
	return err
}

func unable(field string) error {
	return refusal("the user in the kubeconfig needs "+field+", which leaderrun cannot do",
		"give leaderrun a user of its own: a service account's token (kubectl create token, tokenFile), or a client certificate")
}

// dataOr decodes base64 data, or else reads a file. It returns nil if there is neither.
func dataOr(data, file, dir string) ([]byte, error) {
	if data != "" {
		text, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return nil, refusal("a field …-data of the kubeconfig is not base64", hintConfig)
		}
		return text, nil
	}
	if file == "" {
		return nil, nil
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, refusal("a file of the kubeconfig cannot be read: "+err.Error(), hintConfig)
	}
	return text, nil
}
