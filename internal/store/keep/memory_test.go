package keep

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease/rules"
)

// memory keeps rows in memory, on a clock that is set.
type memory struct {
	mu      sync.Mutex
	rows    map[string][]byte
	now     rules.Instant
	passed  time.Duration
	changed chan struct{} // closed by each change
}

func newMemory() *memory {
	return &memory{
		rows: map[string][]byte{}, changed: make(chan struct{}),
		now: rules.Instant{Boot: "memory", Up: 1_700_000_000_000, Wall: 1_700_000_000_000, Settle: Settle},
	}
}

// newSettled returns a memory in which no key settles.
func newSettled() *memory {
	m := newMemory()
	m.now.Settle = 0
	return m
}

func (m *memory) open() memoryStore {
	s := New(Config{
		Do: func(ctx context.Context, _ string, call func(context.Context, Keeper) error) error {
			return call(ctx, m)
		},
		Hear:    m.hear,
		Instant: m.now,
		Now:     func() time.Duration { m.mu.Lock(); defer m.mu.Unlock(); return m.passed },
	})
	return memoryStore{s}
}

type memoryStore struct{ *Store }

func (memoryStore) Close() error { return nil }

func (m *memory) advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.passed += d
	m.now.Up, m.now.Wall, m.now.Serving = m.now.Up+d.Milliseconds(), m.now.Wall+d.Milliseconds(), m.now.Serving+d.Milliseconds()
}

func (m *memory) Read(_ context.Context, key string) (Row, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.read(key)
}

func (m *memory) read(key string) (r Row, err error) {
	r.State, r.Now = rules.New(key), m.now
	if text, ok := m.rows[key]; ok {
		r.Version = string(text)
		r.State = rules.State{}
		err = json.Unmarshal(text, &r.State)
	}
	return r, err
}

func (m *memory) Swap(_ context.Context, r Row, _ Effect) (Row, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	is, err := m.read(r.Key)
	if err != nil || is.Version != r.Version {
		return is, false, err
	}
	text, err := json.Marshal(r.State)
	m.rows[r.Key] = text
	close(m.changed)
	m.changed = make(chan struct{})
	return r, true, err
}

func (m *memory) Names(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.rows)), nil
}

func (m *memory) hear(ctx context.Context, _ Bell, key string, until func(Row) bool) error {
	for {
		m.mu.Lock()
		r, err := m.read(key)
		changed := m.changed
		m.mu.Unlock()
		if err != nil || until(r) {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// prunable is a memory whose rows can be removed.
type prunable struct{ *memory }

var _ Pruner = prunable{}

func (p prunable) Oldest(_ context.Context, now rules.Instant) (rows []Row, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.rows {
		if r, err := p.read(key); err == nil && r.Changed < now.Wall-rules.MinKeep.Milliseconds() {
			rows = append(rows, r)
		}
	}
	return rows, nil
}

func (p prunable) Remove(_ context.Context, r Row) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text := p.rows[r.Key]; bytes.Equal(text, []byte(r.Version.(string))) {
		delete(p.rows, r.Key)
	}
	return nil
}
