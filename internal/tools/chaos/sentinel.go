//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/fakeclock"
)

var sentinelWorld = world{
	name: "sentinel", ttl: 6 * time.Second, // so that it is longer than a failover
	has: []need{ownClock, replicas},
	open: func(at site) (backend, error) {
		s, err := newSentinels(at.addr, at.dir)
		if err != nil {
			s.stop()
			return nil, err
		}
		return s, nil
	},
}

const (
	// master is the sentinels' name for the server that leads.
	master = "mymaster"
	// follower is the user as whom replicas follow.
	follower = "follower"
)

// sentinels are two servers, one of which leads, and three sentinels. All have the same
// clock.
type sentinels struct {
	leads[*redisNode]
	addrs string // of the sentinels
	clock string
	nodes []*redisNode
	data  []*redisNode // of all nodes
}

type redisNode struct {
	node
	addr string
}

func newSentinels(host, dir string) (*sentinels, error) {
	s := &sentinels{clock: filepath.Join(dir, "clock")}
	s.leads = leads[*redisNode]{leading: s.first, ready: s.settled}
	if err := s.setClock(0); err != nil {
		return s, err
	}
	const user = "user " + follower + " on >follow ~* &* +@all\nmasteruser " + follower + "\nmasterauth follow\n"
	common := user + "save \"\"\nappendonly yes\nappendfsync no\nrepl-diskless-sync-delay 0\n"
	first, err := s.add(host, filepath.Join(dir, "server0"), common)
	if err != nil {
		return s, err
	}
	firstHost, firstPort, _ := net.SplitHostPort(first.addr)
	second, err := s.add(host, filepath.Join(dir, "server1"), common+"replicaof "+firstHost+" "+firstPort+"\n")
	if err != nil {
		return s, err
	}
	s.data = []*redisNode{first, second}
	var addrs []string
	for i := range 3 {
		watcher, err := s.add(host, filepath.Join(dir, fmt.Sprintf("sentinel%d", i)), fmt.Sprintf(
			"sentinel monitor %[1]s %[2]s %[3]s 2\nsentinel down-after-milliseconds %[1]s 500\nsentinel failover-timeout %[1]s 3000\n", master, firstHost, firstPort),
			"--sentinel")
		if err != nil {
			return s, err
		}
		addrs = append(addrs, watcher.addr)
	}
	s.addrs = strings.Join(addrs, ",")
	for _, addr := range addrs {
		// Its defaults are seconds.
		if _, err := redisCLI(addr, "SENTINEL", "DEBUG", "INFO-PERIOD", "200", "PUBLISH-PERIOD", "200", "ASK-PERIOD", "200"); err != nil {
			return s, err
		}
	}
	return s, s.ready()
}

// add starts one more server with its own configuration file, to which it writes.
func (s *sentinels) add(host, dir, settings string, args ...string) (*redisNode, error) {
	ports, err := freePorts(host, 1)
	if err != nil {
		return nil, err
	}
	port := ports[0]
	n := &redisNode{addr: net.JoinHostPort(host, port)}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "redis.conf")
	text := fmt.Sprintf("bind %s\nport %s\nprotected-mode no\ndir %s\nlogfile %s\n%s", host, port, dir, filepath.Join(dir, "log"), settings)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	n.command = func() *exec.Cmd { return exec.Command("redis-server", append([]string{file}, args...)...) }
	n.env = os.Environ()
	if len(args) == 0 {
		n.env = append(n.env, fakeclock.Env(s.clock)...)
	}
	if err := n.launch(); err != nil {
		return nil, err
	}
	s.nodes = append(s.nodes, n)
	return n, await(context.Background(), "a server of Redis", func() bool {
		out, err := redisCLI(n.addr, "PING")
		return err == nil && strings.HasPrefix(out, "PONG")
	})
}

// settled waits until the servers know each other and the store answers.
func (s *sentinels) settled() error {
	err := await(context.Background(), "sentinels that know each other, and a replica that follows", func() bool {
		for addr := range strings.SplitSeq(s.addrs, ",") {
			state, err := redisCLI(addr, "SENTINEL", "MASTER", master)
			if err != nil || !strings.Contains(state, "num-other-sentinels\n2\n") || !strings.Contains(state, "num-slaves\n1\n") {
				return false
			}
		}
		return s.follows()
	})
	if err != nil {
		return err
	}
	return answers(s)
}

// follows reports whether one server leads and the other has all of its data.
func (s *sentinels) follows() bool {
	leading, err := s.leading()
	if err != nil {
		return false
	}
	for _, n := range s.data {
		state, err := redisCLI(n.addr, "INFO", "replication")
		if err != nil {
			return false
		}
		want := "master_link_status:up"
		if n == leading {
			want = "role:master"
		}
		if !strings.Contains(state, want) {
			return false
		}
	}
	return true
}

// first returns the server that leads, according to the first sentinel.
func (s *sentinels) first() (*redisNode, error) {
	addr, _, _ := strings.Cut(s.addrs, ",")
	return s.named(addr)
}

// named returns the server that leads, according to this sentinel.
func (s *sentinels) named(addr string) (*redisNode, error) {
	out, err := redisCLI(addr, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", master)
	if err != nil {
		return nil, err
	}
	at := strings.Join(strings.Fields(out), ":")
	for _, n := range s.data {
		if n.addr == at {
			return n, nil
		}
	}
	return nil, fmt.Errorf("the sentinels name %q, which is none of the servers", at)
}

func redisCLI(addr string, args ...string) (string, error) {
	host, port, _ := net.SplitHostPort(addr)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "redis-cli", append([]string{"-h", host, "-p", port}, args...)...).CombinedOutput()
	return string(out), err
}

func (s *sentinels) servers() []string { return nil }

func (s *sentinels) url([]string) string { return "redis-sentinel://" + s.addrs + "/" + master }

// replaced waits until all sentinels name another server than the one that failed. That may
// never happen, since they choose no replica that was cut off for long.
func (s *sentinels) replaced(ctx context.Context) {
	const failover = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, failover)
	defer cancel()
	_ = await(ctx, "another server that leads", func() bool {
		for addr := range strings.SplitSeq(s.addrs, ",") {
			if now, err := s.named(addr); err != nil || now == s.failed {
				return false
			}
		}
		return true
	})
}

// start restarts the server that was killed, and returns when it follows the other one.
func (s *sentinels) start() error {
	for _, n := range s.data {
		if err := s.letFollow(n); err != nil && n != s.failed {
			return err
		}
	}
	return s.leads.start()
}

// cutOff ends the replication, while the sentinels still take the replica for a good one.
func (s *sentinels) cutOff() error {
	leading, err := s.leading()
	if err != nil {
		return err
	}
	if _, err := redisCLI(leading.addr, "ACL", "SETUSER", follower, "off"); err != nil {
		return err
	}
	_, err = redisCLI(leading.addr, "CLIENT", "KILL", "TYPE", "replica")
	return err
}

func (s *sentinels) letFollow(n *redisNode) error {
	_, err := redisCLI(n.addr, "ACL", "SETUSER", follower, "on")
	return err
}

func (s *sentinels) setClock(ahead time.Duration) error { return setClock(s.clock, ahead) }

func (s *sentinels) stop() {
	for _, n := range s.nodes {
		n.end()
	}
}
