package cas

import (
	"context"
	"encoding/json"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
)

// table keeps texts in memory, on a clock that counts whole seconds.
type table struct {
	mu      sync.Mutex
	began   time.Time
	ahead   time.Duration // of the real time
	texts   map[string]string
	changes map[string]int
	changed chan struct{} // closed by the next change
}

func newTable() *table {
	return &table{began: time.Now(), ahead: 10 * 365 * 24 * time.Hour, texts: map[string]string{}, changes: map[string]int{}, changed: make(chan struct{})}
}

// keeper is one store's access to a table.
type keeper struct {
	*table
	store *Store
}

func (k keeper) Read(ctx context.Context, key string) (Row, error) {
	runtime.Gosched() // so that other clients change the key meanwhile
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.row(ctx, key)
}

func (k keeper) row(ctx context.Context, key string) (r Row, err error) {
	r = Row{Value: New(key), Kept: k.changes[key], Server: "table", Date: k.began.Add(k.up()).Truncate(time.Second)}
	if text, ok := k.texts[key]; ok {
		if r.Value, err = k.store.Parse(key, []byte(text)); err != nil {
			return r, &lease.StoreError{Err: err, Permanent: true, Hint: "repair it"}
		}
	}
	return r, ctx.Err()
}

func (k keeper) Swap(ctx context.Context, r Row) (now Row, saved bool, err error) {
	runtime.Gosched()
	k.mu.Lock()
	defer k.mu.Unlock()
	if now, err = k.row(ctx, r.Key); err != nil || now.Kept != r.Kept {
		return now, false, err
	}
	k.put(r.Key, text(r.Value))
	return now, true, nil
}

func text(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (t *table) put(key, text string) {
	t.texts[key] = text
	t.changes[key]++
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *table) up() time.Duration { return time.Since(t.began) + t.ahead }

func (t *table) follow(ctx context.Context, k keeper, op, key string, enough func(Row) bool) error {
	for {
		t.mu.Lock()
		r, err := k.row(ctx, key)
		changed := t.changed
		t.mu.Unlock()
		if err != nil {
			return failure(op, err)
		}
		if enough(r) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

func failure(op string, err error) error {
	if f, ok := err.(*lease.StoreError); ok { //nolint:errorlint // it is that one
		return &lease.StoreError{Op: op, Err: f.Err, Permanent: f.Permanent, Hint: f.Hint}
	}
	return &lease.StoreError{Op: op, Err: err}
}

// memory is a store on a table.
type memory struct {
	*Store
	*table
}

func (memory) Close() error { return nil }

func (m memory) Keys(context.Context) ([]string, error) {
	m.table.mu.Lock()
	defer m.table.mu.Unlock()
	return slices.Sorted(maps.Keys(m.texts)), nil
}

// openSettled opens a store in which the first grant of a key does not wait.
func (t *table) openSettled() memory {
	s := t.open()
	s.Settle = 0
	return s
}

func (t *table) open() memory {
	var s *Store
	s = NewStore(Config{
		Do: func(ctx context.Context, op string, call func(context.Context, Keeper) error) error {
			if err := call(ctx, keeper{t, s}); err != nil {
				return failure(op, err)
			}
			return nil
		},
		Follow: func(ctx context.Context, op, key string, enough func(Row) bool) error {
			return t.follow(ctx, keeper{t, s}, op, key, enough)
		},
		Boot: "memory", Settle: 300, Apart: 30_000,
		Now: func() time.Duration { t.mu.Lock(); defer t.mu.Unlock(); return t.up() },
	})
	return memory{s, t}
}

func (t *table) harness() leasetest.Harness {
	return leasetest.Harness{
		Open:     func(*testing.T) lease.Store { return t.open() },
		Unit:     40 * time.Second, // longer than the clocks may be apart
		Apart:    30 * time.Second,
		Advance:  func(d time.Duration) { t.mu.Lock(); defer t.mu.Unlock(); t.ahead += d },
		Wakes:    true,
		WakesAll: true,
		Settles:  true,
		Wipe: func(*testing.T) {
			t.mu.Lock()
			defer t.mu.Unlock()
			for key := range t.texts {
				delete(t.texts, key)
				t.changes[key]++
			}
			close(t.changed)
			t.changed = make(chan struct{})
		},
		Damage: t.damages(),
	}
}

// damages are values that leaderrun does not write; leasestate tests what else no state may be.
func (t *table) damages() (all []leasetest.Damage) {
	for name, text := range map[string]string{
		"nothing":                 ``,
		"no JSON":                 `host/1/0123456789abcdef0123456789abcdef`,
		"another form":            `{"version":2,"key":"KEY","token":0}`,
		"another key":             `{"version":1,"key":"KEYX","token":0}`,
		"a mark that is none":     `{"version":1,"key":"KEY","token":1,"renewed":"x"}`,
		"a grant of another boot": `{"version":1,"key":"KEY","token":5,"grant":{"holder":"` + string(lease.NewHolder("h", 1)) + `","ttl_ms":5,"boot":"b"}}`,
	} {
		all = append(all, leasetest.Damage{Name: name, Do: func(_ *testing.T, key string) {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.put(key, strings.ReplaceAll(text, "KEY", key))
		}})
	}
	return all
}

func TestContract(t *testing.T) {
	leasetest.Run(t, newTable().harness())
}

func TestHistories(t *testing.T) {
	all := newTable()
	leasetest.Histories(t, leasetest.Harness{Apart: 30 * time.Second, Open: func(*testing.T) lease.Store {
		return all.openSettled()
	}})
}
