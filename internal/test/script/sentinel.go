package script

import (
	"context"
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
	Primary   *RedisServer // the first one
	Replicas  []*RedisServer
	Sentinels []*RedisServer

	t       testing.TB
	clients map[*RedisServer]*redis.Client
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
	set := &SentinelSet{Primary: o.start(t), t: t, clients: map[*RedisServer]*redis.Client{}}
	for range replicas {
		set.Replicas = append(set.Replicas, o.start(t, "--replicaof", hostOf(t), strconv.Itoa(set.Primary.Port)))
	}
	for range 3 {
		set.Sentinels = append(set.Sentinels, o.startSentinel(t, set.Primary.Port))
	}
	for _, s := range append(set.Data(), set.Sentinels...) {
		set.clients[s] = o.client(t, s)
	}
	for _, s := range set.Sentinels {
		// Its defaults are seconds.
		_, err := set.do(s, "SENTINEL", "DEBUG", "INFO-PERIOD", "200", "PUBLISH-PERIOD", "200", "ASK-PERIOD", "200")
		must.Succeed(t, err)
	}
	set.Await()
	return set
}

// Data returns the servers that hold data.
func (s *SentinelSet) Data() []*RedisServer { return append([]*RedisServer{s.Primary}, s.Replicas...) }

// do returns what a server answers, as text.
func (s *SentinelSet) do(server *RedisServer, command ...any) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	answer, err := s.clients[server].Do(ctx, command...).Result()
	return fmt.Sprint(answer), err
}

// Leader returns the server that leads, as a sentinel says, or nil.
func (s *SentinelSet) Leader(sentinel *RedisServer) *RedisServer {
	name, _ := s.do(sentinel, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster")
	i := slices.IndexFunc(s.Data(), func(d *RedisServer) bool { return name == fmt.Sprintf("[%s %d]", hostOf(s.t), d.Port) })
	if i < 0 {
		return nil
	}
	return s.Data()[i]
}

// Await waits until the sentinels know each other and all servers, and all replicas follow.
func (s *SentinelSet) Await() {
	s.t.Helper()
	for _, one := range s.Sentinels {
		must.Await(s.t, "sentinels that find each other", func() bool {
			state, _ := s.do(one, "SENTINEL", "MASTER", "mymaster")
			return strings.Contains(state, "num-other-sentinels 2 ") && strings.Contains(state, fmt.Sprintf("num-slaves %d ", len(s.Replicas)))
		})
	}
	must.Await(s.t, "replicas that follow", func() bool {
		leader := s.Leader(s.Sentinels[0])
		return !slices.ContainsFunc(s.Data(), func(d *RedisServer) bool {
			state, _ := s.do(d, "INFO", "replication")
			return !strings.Contains(state, map[bool]string{true: "role:master", false: "master_link_status:up"}[d == leader])
		})
	})
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
func (s *SentinelSet) CutOff() {
	s.t.Helper()
	leader := s.Leader(s.Sentinels[0])
	for _, command := range [][]any{{"ACL", "SETUSER", replicator, "off"}, {"CLIENT", "KILL", "TYPE", "replica"}} {
		_, err := s.do(leader, command...)
		must.Succeed(s.t, err)
	}
}

// LetFollow undoes CutOff at all servers that live.
func (s *SentinelSet) LetFollow() {
	for _, d := range s.Data() {
		_, _ = s.do(d, "ACL", "SETUSER", replicator, "on")
	}
}

// start starts a server with a configuration file, to which a sentinel lets it write whom it
// follows.
func (o Servers) start(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "redis.conf")
	return startServer(t, dir, func(port string) []string {
		var text strings.Builder
		for _, arg := range slices.Concat(basics(t, port, dir), []string{"--repl-diskless-sync-delay", "0"}, o.tlsArgs(port), o.Args, args) {
			if name, ok := strings.CutPrefix(arg, "--"); ok {
				fmt.Fprintf(&text, "\n%s", name)
			} else {
				fmt.Fprintf(&text, " %q", arg)
			}
		}
		must.Succeed(t, os.WriteFile(file, []byte(text.String()+"\n"), 0o600))
		return []string{file}
	})
}

func (o Servers) startSentinel(t testing.TB, primary int) *RedisServer {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "sentinel.conf") // the sentinel writes to it
	text := fmt.Sprintf(`sentinel monitor mymaster %s %d 2
sentinel down-after-milliseconds mymaster 500
sentinel failover-timeout mymaster 3000
%s
`, hostOf(t), primary, strings.Join(o.Sentinel, "\n"))
	return startServer(t, dir, func(port string) []string {
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
		return append([]string{file, "--sentinel", "--port", port, "--bind", hostOf(t), "--protected-mode", "no", "--dir", dir}, o.tlsArgs(port)...)
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
