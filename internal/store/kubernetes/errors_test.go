//go:build linux

package kubernetes

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/store/network"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// at opens a store at an address.
func at(t *testing.T, addr string, dial network.Dial) *Store {
	t.Helper()
	return openAs(t, script.WriteKubeconfig(t, addr, script.NewCertificates(t, t.TempDir()), "sesame"), Options{Dialer: dial})
}

func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	silent := networktest.NeverAnswers(t)
	networktest.EndWithContext(t, networktest.CallsOf(at(t, silent, nil)))
	networktest.Unreachable(t, "Kubernetes at h:443", "the kubeconfig", func(dial network.Dial) *Store { return at(t, "h:443", dial) }, networktest.CallsOf)
}

// The server is no API server, or cannot answer now.
func TestAnswersOfOthers(t *testing.T) {
	t.Parallel()
	certs := script.NewCertificates(t, t.TempDir())
	said := func(status int, reason string) string {
		text, err := json.Marshal(map[string]any{"kind": "Status", "code": status, "reason": reason, "message": "\x1b[2J " + reason})
		must.Succeed(t, err)
		return string(text)
	}
	refused := func(why string) string {
		return strings.Replace(said(403, "Forbidden"), `Forbidden"`, `leases.coordination.k8s.io \"k\" is forbidden: `+why+`"`, 1)
	}
	for name, c := range map[string]struct {
		status     int
		text       string
		permanent  bool
		says, hint string
	}{
		"a web page":           {200, "<html>s3cret</html>", false, "something else", "what the address names"},
		"another object":       {200, `{"kind":"Pod"}`, false, "something else", "what the address names"},
		"an error of a proxy":  {502, "bad gateway", false, "HTTP status 502", "what the address names"},
		"not found at all":     {404, "404 page not found", false, "HTTP status 404", "what the address names"},
		"no such API":          {404, said(404, "NotFound"), true, "NotFound", "kubectl get namespace"},
		"too many requests":    {429, "later", false, "too many requests", "readyz"},
		"it does not answer":   {504, said(504, "Timeout"), false, "Timeout", "readyz"},
		"its etcd hangs":       {504, "Timeout: request did not complete", false, "HTTP status 504", "readyz"},
		"a token of nobody":    {401, said(401, "Unauthorized"), true, "who asks", "whoami"},
		"not allowed":          {403, said(403, "Forbidden"), true, "Forbidden", "get, create, update and watch"},
		"no role":              {403, refused(`User \"jobs\" cannot get resource \"leases\"`), true, "cannot get", "get, create, update and watch"},
		"a quota is contended": {403, refused("too many concurrent requests to increment quota"), false, "increment quota", "kubectl describe namespace"},
		"a quota is used up":   {403, refused("exceeded quota: leases"), false, "exceeded quota", "kubectl describe namespace"},
		"a policy":             {403, refused("the namespace jobs is being terminated"), true, "terminated", "policies"},
		"a policy's own":       {422, refused("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"), true, "denied request: no", "policies"},
		"a redirect elsewhere": {302, "", false, "HTTP status 302", "what the address names"},
	} {
		t.Run(name, func(t *testing.T) {
			addr := serve(t, certs, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.text))
			})
			s := openAs(t, script.WriteKubeconfig(t, addr, certs, "token"), Options{})
			networktest.WantError(t, networktest.Refused(t, s), c.permanent, c.says, c.hint)
		})
	}
}
