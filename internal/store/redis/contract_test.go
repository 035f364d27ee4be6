package redis

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// The server's clock is not this host's, and the user has the rights that the hint names, no others.
func TestContract(t *testing.T) {
	t.Parallel()
	server := script.StartRedis(t, user("cron on >sesame ~leaderrun:* -@all "+rights+" "+listing)...)
	if _, err := exec.LookPath("faketime"); err == nil || os.Getenv("CI") != "" {
		server.SetClock("-40d")
	}
	b := backend{addr: server.Addr, raw: rawClient(t, server.Addr)}
	t.Cleanup(func() {
		if denied, err := b.raw.Do(context.Background(), "ACL", "LOG").Slice(); err != nil || len(denied) > 0 {
			t.Errorf("denied: %v, %v", denied, err)
		}
	})
	h := harness(b)
	h.Unit = 200 * time.Millisecond
	// The subtests run in parallel on one server, so only one subtest's network may stall.
	var network networktest.Stalls
	h.Open = func(t *testing.T) lease.Store {
		return openWith(t, Options{URL: "redis://cron:sesame@" + b.addr, Prefix: prefix, Dialer: network.Dialer(t)})
	}
	h.Stall = network.Stall
	leasetest.Run(t, h)
}

func TestHistories(t *testing.T) {
	t.Parallel()
	b := realBackend(t) // leases that end in real time need a real server
	// The server has known the prefix for a day: no key settles because it is new.
	b.do(t, "SET", prefix+":serving", fmt.Sprint(b.now(t)-24*time.Hour.Milliseconds(), " ", b.names(t)))
	leasetest.Histories(t, harness(b))
}

func harness(b backend) leasetest.Harness {
	leaseKey := (&Store{prefix: prefix}).leaseKey
	stateKey := func(key string) string { return (&Store{prefix: prefix}).companion("state", key) }
	return leasetest.Harness{
		Open:    func(t *testing.T) lease.Store { return open(t, b.addr) },
		Wakes:   true,
		Settles: true,
		Forget:  func(t *testing.T, key string) { b.do(t, "DEL", leaseKey(key)) },
		Wipe:    func(t *testing.T) { b.do(t, "FLUSHALL") },
		Put:     func(t *testing.T, key, value string) { b.do(t, "SET", leaseKey(key), value) },
		Get:     func(t *testing.T, key string) string { v, _ := b.do(t, "GET", leaseKey(key)).(string); return v },
		Damage: []leasetest.Damage{
			{Name: "the lease is a list", Do: func(t *testing.T, key string) {
				b.do(t, "DEL", leaseKey(key))
				b.do(t, "RPUSH", leaseKey(key), "x")
			}},
			{Name: "the state is a string", Do: func(t *testing.T, key string) { b.do(t, "SET", stateKey(key), "x") }},
			{Name: "another form", Do: func(t *testing.T, key string) { b.do(t, "HSET", stateKey(key), "state", `{"version":2}`) }},
			{Name: "no state", Do: func(t *testing.T, key string) { b.do(t, "HSET", stateKey(key), "version", "1", "state", "") }},
			{Name: "the token is out of range", Do: func(t *testing.T, key string) {
				b.do(t, "HSET", stateKey(key), "version", "1", "state", `{"version":1,"key":"`+key+`","token":9999999999999999}`)
			}},
		},
	}
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	b := realBackend(t)
	networktest.Conflicts(t, open(t, b.addr), open(t, b.addr).Store, func() { b.do(t, "FLUSHALL") })
}
