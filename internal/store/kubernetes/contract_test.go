//go:build linux

package kubernetes

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
	admin := b.Kubeconfig("admin") // may also list
	h := networktest.Shifted(network.Apart*time.Millisecond, func(t *testing.T, dial network.Dial) (lease.Store, *keep.Store) {
		s := openAs(t, admin, Options{Dialer: dial})
		return s, s.Store
	})
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

// damages are annotations that leaderrun does not write; package rules tests what else no state may be.
func damages(b backend) []leasetest.Damage {
	holder := string(lease.NewHolder("h", 1))
	state := func(name, text string) leasetest.Damage {
		return leasetest.Damage{Name: name, Do: func(t *testing.T, key string) {
			b.put(t, key, map[string]any{"metadata": map[string]any{
				"annotations": map[string]any{stateAnnotation: strings.ReplaceAll(text, "KEY", key), keyAnnotation: key},
				"labels":      map[string]any{managedLabel: managedBy},
			}})
		}}
	}
	return []leasetest.Damage{
		state("nothing", ""),
		state("another form", `{"version":2,"key":"KEY","token":0}`),
		state("a grant of another boot", `{"version":1,"key":"KEY","token":5,"grant":{"holder":"`+holder+`","ttl_ms":5,"boot":"b"}}`),
	}
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	networktest.Conflicts(t, b.open(t), b.open(t).Store, func() { b.wipe(t) })
}
