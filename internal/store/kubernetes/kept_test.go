//go:build linux

package kubernetes

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

func TestKept(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	leasetest.Kept(t, leasetest.Backing{
		Open: func(t *testing.T) lease.Store { return b.open(t) },
		Dump: func(t *testing.T, key string) string {
			o := b.lease(t, key)
			spec, err := json.Marshal(o["spec"])
			must.Succeed(t, err)
			return o["metadata"].(map[string]any)["annotations"].(map[string]any)[stateAnnotation].(string) + "\n" + string(spec)
		},
		Load: func(t *testing.T, key, kept string) {
			state, text, _ := strings.Cut(kept, "\n")
			spec := map[string]any{"holderIdentity": nil}
			must.Succeed(t, json.Unmarshal([]byte(text), &spec))
			b.put(t, key, map[string]any{"metadata": map[string]any{"annotations": map[string]any{stateAnnotation: state, keyAnnotation: key}}, "spec": spec})
		},
	})
}
