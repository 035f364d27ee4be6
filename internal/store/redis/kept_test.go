package redis

import (
	"encoding/json"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

func TestKept(t *testing.T) {
	t.Parallel()
	b := realBackend(t)
	// Other programs use the first of these names.
	leader := func(key string) string { return prefix + ":leader:" + key }
	state := func(key string) string { return prefix + ":state:{" + leader(key) + "}" }
	type kept struct {
		Leader string            `json:"leader"`
		State  map[string]string `json:"state"`
	}
	leasetest.Kept(t, leasetest.Backing{
		Open: func(t *testing.T) lease.Store { return open(t, b.addr) },
		Dump: func(t *testing.T, key string) string {
			text, err := json.Marshal(kept{
				b.do(t, "GET", leader(key)).(string),
				b.raw.HGetAll(t.Context(), state(key)).Val(),
			})
			must.Succeed(t, err)
			return string(text)
		},
		Load: func(t *testing.T, key, text string) {
			var k kept
			must.Succeed(t, json.Unmarshal([]byte(text), &k))
			b.do(t, "DEL", leader(key), state(key))
			b.raw.HSet(t.Context(), state(key), k.State)
		},
	})
}
