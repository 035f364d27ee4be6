//go:build linux

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// standsBy is how long to wait until a candidate certainly stands by, with any store.
const standsBy = 500 * time.Millisecond

// stores measures a run and a hand-over with each kind of store: those that the benchmark
// starts, and those whose addresses are given.
func stores(b *bench) error {
	client, stop, err := startEtcd(b.dir)
	if err != nil {
		return err
	}
	defer stop()
	k, err := startPostgres(b.dir, []string{"127.0.0.1"}, 100)
	if err != nil {
		return err
	}
	defer k.stop()
	addresses := append([]string{b.redis.url(), "file:" + filepath.Join(b.dir, "stores"), k.url("127.0.0.1"), "etcd://" + client}, b.stores...)

	lockFile := filepath.Join(b.dir, "flock")
	variants := []variant{{"flock", []string{"flock", lockFile}}}
	contenders := []contender{{
		"flock", func(string) []string { return variants[0].args },
		func(_ string, n int) error { return awaitBlocked(lockFile, n) },
	}}
	for _, address := range addresses {
		name, _, _ := strings.Cut(address, ":")
		args := []string{"leaderrun", "--store", address, "--wait", "forever", "--key"}
		variants = append(variants, variant{name, append(slices.Clip(args), "stores", "--")})
		contenders = append(contenders, contender{
			name, func(key string) []string { return append(slices.Clip(args), key, "--") },
			func(string, int) error { time.Sleep(standsBy); return nil },
		})
	}
	err = compare("wall time of true, ms", variants, b.rounds, func(v variant) (time.Duration, error) {
		return wall(append(v.args, "true"))
	})
	if err != nil {
		return err
	}
	return b.compareRelays(contenders, 1)
}
