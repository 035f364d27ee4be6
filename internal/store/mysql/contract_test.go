//go:build linux

package mysql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/network"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	b := newBackend(t, "--max-connections=500")
	b.do(t, createTable)
	h := networktest.Harness(func(t *testing.T, dial network.Dial) lease.Store {
		return openWith(t, Options{URL: b.URL, Dialer: dial})
	})
	h.Listens = func(t *testing.T, key string) bool { return b.waits(t, b.channel(t, keep.Call, key)) }
	h.Wipe = func(t *testing.T) { b.do(t, "DELETE FROM leaderrun_leases") }
	h.Damage = damages(b)
	leasetest.Run(t, h)
}

func TestHistories(t *testing.T) {
	t.Parallel()
	b := newBackend(t, "--max-connections=500")
	b.do(t, createTable)
	leasetest.Histories(t, leasetest.Harness{Open: func(t *testing.T) lease.Store {
		s := b.open(t)
		s.Instant.Settle = 0 // otherwise each new key settles, and no history has a grant
		return s
	}})
}

// channel is one of a key.
func (b backend) channel(t *testing.T, bell keep.Bell, key string) string {
	return b.open(t).channelOf(bell, key)
}

// damages are rows that leaderrun does not write; package rules tests what else no state may be.
func damages(b backend) []leasetest.Damage {
	holder := string(lease.NewHolder("h", 1))
	row := func(name, version, state string) leasetest.Damage {
		return leasetest.Damage{Name: name, Do: func(t *testing.T, key string) {
			b.do(t, fmt.Sprintf(`REPLACE INTO leaderrun_leases (prefix, service_name, version, state) VALUES ('%s', '%s', %s, %s)`,
				prefix, key, version, strings.ReplaceAll(state, "KEY", key)))
		}}
	}
	state := func(name, text string) leasetest.Damage { return row(name, "7", "'"+text+"'") }
	return []leasetest.Damage{
		state("nothing", ``),
		state("a number", `1e1000`),
		state("runs that are none", `{"version":1,"key":"KEY","token":0,"runs":{"token":1}}`),
		state("another form", `{"version":2,"key":"KEY","token":0}`),
		state("another key", `{"version":1,"key":"KEYX","token":0}`),
		state("a grant of another boot", `{"version":1,"key":"KEY","token":5,"grant":{"holder":"`+holder+`","ttl_ms":5,"boot":"b"}}`),
		row("too large", "7", `CONCAT('{"version":1,"key":"KEY","token":5,"x":"', REPEAT('x', 2 << 20), '"}')`),
		row("no version", "0", `'{"version":1,"key":"KEY","token":5}'`),
		row("a negative version", "-5", `'{"version":1,"key":"KEY","token":5}'`),
	}
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.do(t, createTable)
	networktest.Conflicts(t, b.open(t), b.open(t).Store, func() { b.do(t, "DELETE FROM leaderrun_leases") })
}
