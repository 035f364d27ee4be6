package leasestate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
	"github.com/leaderrun/leaderrun/internal/store/cas"
)

// memory is a store that keeps its states in memory, on a clock that is set.
type memory struct {
	cas.Verbs
	*kept
}

type kept struct {
	mu     sync.Mutex
	states map[string][]byte
	now    leasestate.Instant
}

func (k *kept) open() memory {
	return memory{func(_ context.Context, c cas.Change) (l lease.Lease, err error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		st := k.read(c.Key)
		before, _ := json.Marshal(st)
		l, err = c.Apply(&st, k.now)
		if after, _ := json.Marshal(st); !bytes.Equal(before, after) {
			k.states[c.Key] = after
		}
		return l, err
	}, k}
}

func (k *kept) read(key string) leasestate.State {
	st := leasestate.New(key)
	if text, ok := k.states[key]; ok {
		_ = json.Unmarshal(text, &st)
	}
	return st
}

func (k *kept) advance(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now.Up += d.Milliseconds()
	k.now.Wall += d.Milliseconds()
	k.now.Serving += d.Milliseconds()
}

func (m memory) Inspect(_ context.Context, key string) (lease.Status, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	st := m.read(key)
	return st.Status(m.now), nil
}

func (m memory) Keys(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.states)), nil
}

func (memory) Wait(context.Context, string, time.Duration) error { return lease.ErrNoWakeups }
func (memory) Close() error                                      { return nil }

func TestContract(t *testing.T) {
	for name, settle := range map[string]int64{"a clock that may be set": 300, "the kernel's clock": 0} {
		t.Run(name, func(t *testing.T) {
			k := &kept{states: map[string][]byte{}, now: leasestate.Instant{Boot: "b", Up: 1_800_000_000_000, Wall: 1_800_000_000_000, Settle: settle, Server: "s"}}
			leasetest.Run(t, leasetest.Harness{
				Open:    func(*testing.T) lease.Store { return k.open() },
				Unit:    10 * time.Second,
				Advance: k.advance,
				Settles: settle > 0,
				Wipe: func(*testing.T) {
					k.mu.Lock()
					defer k.mu.Unlock()
					clear(k.states)
					k.now.Serving = 0
				},
			})
		})
	}
}
