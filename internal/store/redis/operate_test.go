package redis

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// Only keys of the prefix are listed, whatever characters the prefix has.
func TestKeysOfAPrefix(t *testing.T) {
	b := realBackend(t)
	for _, prefix := range []string{"leaderrun", "a:b", "x*", "[x]", `x\`, "x?"} {
		b.do(t, "FLUSHALL")
		s := openWith(t, Options{URL: "redis://" + b.addr, Prefix: prefix})
		if keys, err := s.Keys(bounded(t)); err != nil || keys == nil || len(keys) > 0 {
			t.Errorf("%s: %q, %v of nothing", prefix, keys, err)
		}
		b.do(t, "SET", s.leaseKey("b:c/d"), "anything")
		b.do(t, "HSET", s.companion("state", "a"), "token", 1)
		b.do(t, "HSET", s.companion("state", "b:c/d"), "token", 1)
		for _, other := range []string{
			s.leaseKey(""), s.leaseKey("a b"), s.leaseKey("{a}"), s.leaseKey("x\x1b[2J"), s.leaseKey(strings.Repeat("x", 201)), s.companion("runs", "r"),
			prefix + "x:leader:k", "x" + prefix + ":leader:k", "xx:leader:k", "xy:leader:k", prefix + ":serving", prefix + ":state:{" + s.leaseKey("open"), prefix + ":state:k",
		} {
			b.do(t, "SET", other, "x")
		}
		if keys, err := s.Keys(bounded(t)); err != nil || !slices.Equal(keys, []string{"a", "b:c/d"}) {
			t.Errorf("%s: %q, %v", prefix, keys, err)
		}
	}
}

// There are more keys than one page of the scan holds.
func TestManyKeys(t *testing.T) {
	b := realBackend(t)
	b.do(t, "EVAL", "for i = 1, 5000 do redis.call('SET', 'x' .. i, 1) redis.call('SET', 'leaderrun:leader:' .. i, 1) end", 0)
	if keys, err := open(t, b.addr).Keys(bounded(t)); err != nil || len(keys) != 5000 {
		t.Errorf("%d keys, %v", len(keys), err)
	}
}

// The keys of all nodes are listed, or none if a node does not answer.
func keysOfACluster(t *testing.T, c *script.Cluster) {
	s := openCluster(t, c.Addrs())
	nodes, want := map[*script.RedisServer]bool{}, []string{}
	for i := range 9 {
		key := fmt.Sprint("listed", i)
		node, _ := c.Of(t, prefix+":leader:"+key)
		nodes[node], want = true, append(want, key)
		grant(t, s, request(key))
	}
	if len(nodes) != 3 {
		t.Errorf("the keys are on %d nodes only", len(nodes))
	}
	for _, node := range c.Primaries {
		keys, err := openCluster(t, node.Addr).Keys(bounded(t))
		if keys = slices.DeleteFunc(keys, func(key string) bool { return !strings.HasPrefix(key, "listed") }); err != nil || !slices.Equal(keys, want) {
			t.Errorf("%q, %v", keys, err)
		}
	}
	_, err := openCluster(t, "few:sesame@"+c.Primaries[0].Addr).Keys(bounded(t))
	networktest.WantError(t, err, true, "list: redis at ", "+scan +cluster|slots")
}
