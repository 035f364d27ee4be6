//go:build linux

package s3

import (
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/network"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := networktest.Shifted(network.Apart*time.Millisecond, func(t *testing.T, dial network.Dial) (lease.Store, *keep.Store) {
		s := openAs(t, Options{URL: at(b.Addr), Dialer: dial}, keys)
		return s, s.Store
	})
	h.Wakes, h.WakesAll, h.Uncalled = false, false, true
	h.Wipe, h.Damage = b.wipe, damages(b)
	leasetest.Run(t, h)
}

func TestHistories(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	leasetest.Histories(t, leasetest.Harness{Apart: network.Apart * time.Millisecond, Open: func(t *testing.T) lease.Store {
		s := b.open(t)
		s.Instant.Settle = 0 // otherwise the first grant of each key would wait
		return s
	}})
}

// damages are bodies that leaderrun does not write; package rules tests what else no state may be.
func damages(b backend) []leasetest.Damage {
	body := func(name, text string) leasetest.Damage {
		return leasetest.Damage{Name: name, Do: func(t *testing.T, key string) {
			b.put(t, b.open(t), key, strings.ReplaceAll(text, "KEY", key))
		}}
	}
	return []leasetest.Damage{
		body("nothing", " "),
		body("torn", `{"version":1,"key":"KEY","token":12`),
		body("another form", `{"version":2,"key":"KEY","token":0}`),
		body("another key", `{"version":1,"key":"KEYX","token":0}`),
		body("a grant of another store", `{"version":1,"key":"KEY","token":5,"grant":{"holder":"`+string(lease.NewHolder("h", 1))+`","ttl_ms":5,"boot":"b"}}`),
	}
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	s.Instant.Settle = 0
	networktest.Conflicts(t, s, b.open(t).Store, func() { b.wipe(t) })
}
