package script

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// Cluster is a Redis cluster of three primaries, each with a third of the slots and perhaps a
// replica. Nodes count as dead after a second.
type Cluster struct {
	Primaries, Replicas []*RedisServer

	clients map[*RedisServer]*redis.Client
}

// StartCluster starts a cluster and returns when all nodes say that it works.
func StartCluster(t testing.TB, replicas bool, o Servers) *Cluster {
	t.Helper()
	c := &Cluster{clients: map[*RedisServer]*redis.Client{}}
	for i := range 3 {
		c.Primaries = append(c.Primaries, c.start(t, o))
		const slots = 16384
		c.do(t, c.Primaries[i], "CLUSTER", "ADDSLOTSRANGE", i*slots/3, (i+1)*slots/3-1)
		if replicas {
			c.Replicas = append(c.Replicas, c.start(t, o))
		}
	}
	for node := range c.clients {
		c.do(t, c.Primaries[0], "CLUSTER", "MEET", "127.0.0.1", node.Port, c.do(t, node, "CONFIG", "GET", "cluster-port").([]any)[1])
	}
	c.await(t, func(node *RedisServer) bool {
		return strings.Contains(c.info(t, node), "cluster_known_nodes:"+strconv.Itoa(len(c.clients)))
	})
	for i, replica := range c.Replicas {
		c.do(t, replica, "CLUSTER", "REPLICATE", c.do(t, c.Primaries[i], "CLUSTER", "MYID"))
	}
	c.await(t, func(node *RedisServer) bool {
		nodes, _ := c.do(t, node, "CLUSTER", "NODES").(string)
		return strings.Contains(c.info(t, node), "cluster_state:ok") && strings.Count(nodes, " slave ")+strings.Count(nodes, ",slave ") == len(c.Replicas)
	})
	for _, replica := range c.Replicas {
		must.Await(t, "a replica that follows", func() bool {
			return strings.Contains(c.clients[replica].Info(t.Context(), "replication").Val(), "master_link_status:up")
		})
	}
	return c
}

// Addrs returns the addresses of the primaries, with commas between them.
func (c *Cluster) Addrs() string {
	var addrs []string
	for _, node := range c.Primaries {
		addrs = append(addrs, node.Addr)
	}
	return strings.Join(addrs, ",")
}

// Of returns the primary that had a key at the start, and its index in Primaries.
func (c *Cluster) Of(t testing.TB, key string) (*RedisServer, int) {
	t.Helper()
	const slots = 16384
	slot := c.do(t, c.Primaries[0], "CLUSTER", "KEYSLOT", key).(int64)
	for i, node := range c.Primaries {
		if slot < int64((i+1)*slots/3) {
			return node, i
		}
	}
	t.Fatalf("no node has slot %d", slot)
	return nil, 0
}

func (c *Cluster) start(t testing.TB, o Servers) *RedisServer {
	t.Helper()
	o.Args = append([]string{
		"--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-port", strconv.Itoa(FreePort(t)),
	}, o.Args...)
	node := o.start(t)
	c.clients[node] = o.client(t, node)
	return node
}

// await waits until ok is true of every node.
func (c *Cluster) await(t testing.TB, ok func(*RedisServer) bool) {
	t.Helper()
	for node := range c.clients {
		must.Await(t, "nodes that find each other", func() bool { return ok(node) })
	}
}

func (c *Cluster) info(t testing.TB, node *RedisServer) string {
	t.Helper()
	text, _ := c.do(t, node, "CLUSTER", "INFO").(string)
	return text
}

func (c *Cluster) do(t testing.TB, node *RedisServer, args ...any) any {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	v, err := c.clients[node].Do(ctx, args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}
