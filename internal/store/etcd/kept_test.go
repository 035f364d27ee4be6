//go:build linux

package etcd

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

func TestKept(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	names := []string{prefix + "/lease/", prefix + "/runs/"}
	leasetest.Kept(t, leasetest.Backing{
		Open: func(t *testing.T) lease.Store { return b.open(t) },
		Dump: func(t *testing.T, key string) string {
			var values []string
			for _, name := range names {
				found := b.ask(t, "/v3/kv/range", map[string]string{"key": encoded(name + key)})["kvs"].([]any)
				value, err := base64.StdEncoding.DecodeString(found[0].(map[string]any)["value"].(string))
				must.Succeed(t, err)
				values = append(values, string(value))
			}
			return strings.Join(values, "\n")
		},
		Load: func(t *testing.T, key, kept string) {
			for i, value := range strings.Split(kept, "\n") {
				b.put(t, names[i]+key, value)
			}
		},
	})
}
