//go:build linux

package etcd

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// The clocks are moved on, not waited for: a lease that nobody watched outlives its TTL
// by half a minute.
func TestContract(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	var clock clock
	var stalled atomic.Bool
	leasetest.Run(t, leasetest.Harness{
		Open: func(t *testing.T) lease.Store {
			s := openWith(t, Options{URL: "etcd://" + b.Addr, Dialer: swallowing(&stalled)})
			clock.set(s)
			return s
		},
		Unit:     40 * time.Second, // longer than the clocks may be apart
		Apart:    apart * time.Millisecond,
		Advance:  clock.advance,
		Wakes:    true,
		WakesAll: true,
		Settles:  true,
		Wipe:     b.wipe,
		Damage:   damages(b),
		Stall: func(*testing.T, string) func() {
			stalled.Store(true)
			return func() { stalled.Store(false) }
		},
	})
}

func TestHistories(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	leasetest.Histories(t, leasetest.Harness{Open: func(t *testing.T) lease.Store {
		s := b.open(t)
		s.settle = 0 // every key is new, and its first grant would wait
		return s
	}}, 300) // each call costs two answers and a sync of the disk
}

// swallowing returns a dialer whose connections lose what is sent while stalled.
func swallowing(stalled *atomic.Bool) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return swallowConn{c, stalled}, err
	}
}

type swallowConn struct {
	net.Conn
	stalled *atomic.Bool
}

func (c swallowConn) Write(p []byte) (int, error) {
	if c.stalled.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// damages are values that leaderrun does not write.
func damages(b backend) []leasetest.Damage {
	holder := string(lease.NewHolder("h", 1))
	state := func(name, text string) leasetest.Damage {
		return leasetest.Damage{Name: name, Do: func(t *testing.T, key string) {
			b.put(t, prefix+"/lease/"+key, strings.ReplaceAll(text, "KEY", key))
		}}
	}
	return []leasetest.Damage{
		state("nothing", ""),
		state("no JSON", "host/1/0123456789abcdef0123456789abcdef"),
		state("null", `null`),
		state("a string", `"x"`),
		state("empty object", `{}`),
		state("another form", `{"version":2,"key":"KEY","token":0}`),
		state("another key", `{"version":1,"key":"KEYX","token":0}`),
		state("a negative token", `{"version":1,"key":"KEY","token":-1}`),
		state("a token beyond numbers", `{"version":1,"key":"KEY","token":1e30}`),
		state("a mark that is none", `{"version":1,"key":"KEY","token":1,"beat":"x"}`),
		state("a grant without a ttl", `{"version":1,"key":"KEY","token":5,"grant":{"holder":"`+holder+`","boot":"etcd"}}`),
		state("a grant of another boot", `{"version":1,"key":"KEY","token":5,"grant":{"holder":"`+holder+`","ttl_ms":5,"boot":"b"}}`),
		state("a grant without a token", `{"version":1,"key":"KEY","grant":{"holder":"`+holder+`","ttl_ms":5,"boot":"etcd"}}`),
		state("runs of its own", `{"version":1,"key":"KEY","token":5,"runs":[{"token":5}]}`),
		{Name: "runs that are none", Do: func(t *testing.T, key string) {
			b.put(t, prefix+"/lease/"+key, `{"version":1,"key":"`+key+`","token":5}`)
			b.put(t, prefix+"/runs/"+key, `{"token":1}`)
		}},
	}
}

func BenchmarkInvocation(b *testing.B) {
	s := script.StartEtcd(b, "--unsafe-no-fsync=false")
	leasetest.Invocation(b, func() (lease.Store, error) { return New(Options{URL: "etcd://" + s.Addr, Prefix: prefix}) })
}
