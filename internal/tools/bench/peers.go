//go:build linux

package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// byShell is a typical script with redis-cli. It renews nothing, stops nothing, and does not
// notice if its lock is lost.
const byShell = `#!/bin/sh
token=$$-$(date +%s%N)
[ "$(redis-cli -h "$HOST" -p "$PORT" SET shell "$token" NX PX 30000)" = OK ] || exit 0
"$@"
status=$?
redis-cli -h "$HOST" -p "$PORT" EVAL 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end' 1 shell "$token" >/dev/null
exit $status
`

// peers measures a run compared with other programs that lock in a store.
func peers(b *bench) error {
	shell := filepath.Join(b.dir, "shell")
	err := errors.Join(os.WriteFile(shell, []byte(byShell), 0o755), os.Setenv("HOST", b.redis.host), os.Setenv("PORT", b.redis.port))
	if err != nil {
		return err
	}
	client, stop, err := startEtcd(b.dir)
	if err != nil {
		return err
	}
	defer stop()
	variants := []variant{
		{"flock", []string{"flock", filepath.Join(b.dir, "peers")}},
		{"leaderrun, Redis", []string{"leaderrun", "--key", "peers", "--"}},
		{"sh and redis-cli", []string{shell}},
		{"leaderrun, etcd", []string{"leaderrun", "--store", "etcd://" + client, "--key", "peers", "--"}},
		{"etcdctl lock", []string{"etcdctl", "--endpoints", client, "lock", "peers"}},
	}
	rounds := min(b.rounds, 50) // etcd syncs its disk
	err = compare("from exec to the first byte that echo writes, ms", variants, rounds, func(v variant) (time.Duration, error) {
		return firstByte(append(v.args, "echo", "x"))
	})
	if err != nil {
		return err
	}
	return compare("wall time of true, ms", variants, rounds, func(v variant) (time.Duration, error) {
		return wall(append(v.args, "true"))
	})
}

// startEtcd starts a server of one member, and returns the address for clients.
func startEtcd(dir string) (client string, stop func(), err error) {
	var ports []net.Listener
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", nil, err
		}
		ports = append(ports, l)
	}
	client, peer := ports[0].Addr().String(), "http://"+ports[1].Addr().String()
	for _, l := range ports {
		l.Close()
	}
	data, err := os.MkdirTemp(dir, "etcd")
	if err != nil {
		return "", nil, err
	}
	server := exec.Command("etcd", "--data-dir", data, "--listen-client-urls", "http://"+client,
		"--advertise-client-urls", "http://"+client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", "default="+peer, "--logger", "zap", "--log-level", "error")
	if err := server.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { _ = server.Process.Kill(); _ = server.Wait() }
	err = await("an answer of etcd", func() (bool, error) {
		return exec.Command("etcdctl", "--endpoints", client, "endpoint", "health").Run() == nil, nil
	})
	if err != nil {
		stop()
	}
	return client, stop, err
}
