package script

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// SentinelSet is a primary, its replicas, and three sentinels, which call it mymaster. A server
// counts as down after half a second, if two sentinels agree.
type SentinelSet struct {
	Primary   *RedisServer
	Replicas  []*RedisServer
	Sentinels []*RedisServer

	servers Servers
}

// replicator is the replicas' user at the primary.
const replicator = "replicator"

// Servers are settings of a set of servers.
type Servers struct {
	// Args are arguments of every server that holds data.
	Args []string
	// Sentinel are lines in the file of every sentinel.
	Sentinel []string
	// TLS makes all of them speak TLS only.
	TLS Certificates
}

// StartSentinels starts a set with that many replicas, and returns when all servers know each
// other.
func StartSentinels(t testing.TB, replicas int, o Servers) *SentinelSet {
	t.Helper()
	o.Args = append([]string{
		"--user", replicator, "on", ">follow", "~*", "&*", "+@all", "--masteruser", replicator, "--masterauth", "follow",
	}, o.Args...)
	set := &SentinelSet{Primary: o.start(t), servers: o}
	for range replicas {
		set.Replicas = append(set.Replicas, o.start(t, "--replicaof", "127.0.0.1", strconv.Itoa(set.Primary.Port)))
	}
	for range 3 {
		set.Sentinels = append(set.Sentinels, o.startSentinel(t, set.Primary.Port))
	}
	for _, s := range set.Sentinels {
		c := o.client(t, s)
		// Its defaults are seconds.
		c.Do(t.Context(), "SENTINEL", "DEBUG", "INFO-PERIOD", "200", "PUBLISH-PERIOD", "200", "ASK-PERIOD", "200")
		awaitServer(t, "the sentinels do not find each other", func() bool {
			state, _ := c.Do(t.Context(), "SENTINEL", "MASTER", "mymaster").Result()
			text := fmt.Sprint(state)
			return strings.Contains(text, "num-other-sentinels 2 ") && strings.Contains(text, fmt.Sprintf("num-slaves %d ", replicas))
		})
	}
	for _, s := range set.Replicas {
		c := o.client(t, s)
		awaitServer(t, "a replica does not follow", func() bool {
			return strings.Contains(c.Info(t.Context(), "replication").Val(), "master_link_status:up")
		})
	}
	return set
}

// Addrs returns the addresses of the sentinels, with commas between them.
func (s *SentinelSet) Addrs() string {
	var addrs []string
	for _, one := range s.Sentinels {
		addrs = append(addrs, one.Addr)
	}
	return strings.Join(addrs, ",")
}

// CutOff ends the replication, while the sentinels still take the replicas for good ones.
func (s *SentinelSet) CutOff(t testing.TB) {
	t.Helper()
	c := s.servers.client(t, s.Primary)
	for _, command := range [][]any{{"ACL", "SETUSER", replicator, "off"}, {"CLIENT", "KILL", "TYPE", "replica"}} {
		must.Succeed(t, c.Do(t.Context(), command...).Err())
	}
}

func (o Servers) start(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	dir := t.TempDir()
	return startServer(t, func(port string) []string {
		return slices.Concat(basics(port, dir), []string{"--repl-diskless-sync-delay", "0"}, o.tlsArgs(port), o.Args, args)
	})
}

func (o Servers) startSentinel(t testing.TB, primary int) *RedisServer {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "sentinel.conf") // the sentinel writes to it
	text := fmt.Sprintf(`sentinel monitor mymaster 127.0.0.1 %d 2
sentinel down-after-milliseconds mymaster 500
sentinel failover-timeout mymaster 3000
%s
`, primary, strings.Join(o.Sentinel, "\n"))
	return startServer(t, func(port string) []string {
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
		return append([]string{file, "--sentinel", "--port", port, "--bind", "127.0.0.1", "--dir", dir}, o.tlsArgs(port)...)
	})
}

func (o Servers) tlsArgs(port string) []string {
	if o.TLS == "" {
		return nil
	}
	return o.TLS.serverArgs(port)
}

// client returns a client with all rights, if the server's default user has them.
func (o Servers) client(t testing.TB, s *RedisServer) *redis.Client {
	options := &redis.Options{Addr: s.Addr, Protocol: 2, DisableIdentity: true}
	if o.TLS != "" {
		options.TLSConfig = &tls.Config{InsecureSkipVerify: true} // other tests check certificates
	}
	c := redis.NewClient(options)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// awaitServer waits until ok is true.
func awaitServer(t testing.TB, otherwise string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(startPatience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(otherwise)
		}
	}
}
