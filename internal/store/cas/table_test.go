package cas

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

var errNoTable, errInterrupted = errors.New("no such table"), errors.New("interrupted")

// database is the table of a [Table], in memory.
type database struct {
	*table
	missing bool
	signs   map[string]chan struct{} // by their text: wake or call, and the key
}

func newDatabase() *database {
	return &database{table: newTable(), missing: true, signs: map[string]chan struct{}{}}
}

// rows is a store on a database.
type rows struct {
	*Table[*database]
	*database
	yields int
}

func (d *database) open() *rows {
	s := &rows{database: d}
	s.Table = NewTable(Table[*database]{
		Prefix: "prefix",
		Do: func(ctx context.Context, op string, call func(*database) error) error {
			err := ctx.Err()
			if err == nil {
				err = call(d)
			}
			if err != nil {
				return &lease.StoreError{Op: op, Err: err, Permanent: errors.As(err, new(*untrusted)), Hint: "repair it"}
			}
			return nil
		},
		Yield:       func() { s.yields++ },
		Missing:     func(err error) bool { return errors.Is(err, errNoTable) },
		Interrupted: func(err error) bool { return errors.Is(err, errInterrupted) },
		Create:      func(context.Context, *database) error { d.missing = false; return nil },
	})
	s.Look, s.Save, s.Names = s.look, s.save, s.names
	return s
}

func (s *rows) look(_ context.Context, d *database, key string) (r Record, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.began.Add(d.up()).UnixMilli()
	r = Record{State: leasestate.New(key), Version: int64(d.changes[key]), Now: leasestate.Instant{Boot: "memory", Up: now, Wall: now, Settle: 300, Server: "table"}}
	if d.missing {
		return r, errNoTable
	}
	if text, ok := d.texts[key]; ok {
		v, err := NewStore(Config{Boot: "memory"}).Parse(key, []byte(text))
		if err != nil {
			return r, s.Untrusted(key, err)
		}
		r.State = v.State
	}
	return r, nil
}

func (s *rows) save(_ context.Context, d *database, r Record, e Effect) (saved bool, refused, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if int64(d.changes[r.State.Key]) != r.Version {
		return false, nil, nil
	}
	d.put(r.State.Key, text(r.State))
	if e.Wakes {
		d.signal("wake " + r.State.Key)
	}
	if e.Calls {
		d.signal("call " + r.State.Key)
	}
	return true, nil, nil
}

func (s *rows) names(_ context.Context, d *database) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.missing {
		return nil, errNoTable
	}
	return slices.Collect(maps.Keys(d.texts)), nil
}

func (d *database) signal(what string) {
	if sign := d.signs[what]; sign != nil {
		close(sign)
		delete(d.signs, what)
	}
}

// sleep waits for a sign, unless enough is true of the row already.
func (s *rows) sleep(ctx context.Context, what, key string, enough func(Record) bool) error {
	s.mu.Lock()
	sign := s.signs[what+key]
	if sign == nil {
		sign = make(chan struct{})
		s.signs[what+key] = sign
	}
	s.mu.Unlock()
	if r, err := s.look(ctx, s.database, key); err != nil || enough(r) {
		return err
	}
	select {
	case <-sign:
	case <-ctx.Done():
	}
	return nil
}

func (s *rows) Wait(ctx context.Context, key string, atMost time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	return s.sleep(ctx, "wake ", key, func(r Record) bool { return r.State.Free(r.Now) })
}

func (s *rows) Listen(ctx context.Context, key string) error {
	return s.sleep(ctx, "call ", key, func(r Record) bool { return r.State.Settling != nil })
}

func (*rows) Close() error { return nil }

func TestTableContract(t *testing.T) {
	d := newDatabase()
	h := d.harness()
	h.Open = func(*testing.T) lease.Store { return d.open() }
	h.Apart = 0
	h.Listens = func(_ *testing.T, key string) bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.signs["call "+key] != nil
	}
	leasetest.Run(t, h)
}

// Reading makes no table; a change makes it, or reports why it cannot.
func TestTableIsMissing(t *testing.T) {
	d := newDatabase()
	s := d.open()
	if status, err := s.Inspect(t.Context(), "k"); err != nil || status.Key != "k" || status.Holder != "" {
		t.Errorf("%+v, %v", status, err)
	}
	if keys, err := s.Keys(t.Context()); err != nil || len(keys) != 0 || !d.missing {
		t.Errorf("%q, %v, missing %t", keys, err, d.missing)
	}
	create := s.Create
	s.Create = func(context.Context, *database) error { return errLost }
	if _, err := s.Pause(t.Context(), "k", time.Hour, "", ""); !errors.As(err, new(*noTable)) || !errors.Is(err, errLost) {
		t.Error(err)
	}
	s.Create = create
	if _, err := s.Pause(t.Context(), "k", time.Hour, "", ""); err != nil {
		t.Error(err)
	}
	if keys, err := s.Keys(t.Context()); err != nil || !slices.Equal(keys, []string{"k"}) {
		t.Errorf("%q, %v", keys, err)
	}
}

// Rows whose names are no keys are not listed.
func TestTableOfOthers(t *testing.T) {
	d := newDatabase()
	d.missing = false
	for _, name := range []string{"z", "", "b", "no key", "a"} {
		d.put(name, "")
	}
	if keys, err := d.open().Keys(t.Context()); err != nil || !slices.Equal(keys, []string{"a", "b", "z"}) {
		t.Errorf("%q, %v", keys, err)
	}
}

func TestTableFails(t *testing.T) {
	d := newDatabase()
	s := d.open()
	s.Names = func(context.Context, *database) ([]string, error) { return nil, errLost }
	if _, err := s.Keys(t.Context()); !errors.Is(err, errLost) {
		t.Errorf("list: %v", err)
	}
	saves := 0
	s.Save = func(context.Context, *database, Record, Effect) (bool, error, error) {
		saves++
		return false, nil, errLost
	}
	if l, err := s.Acquire(t.Context(), candidate("first")); !errors.Is(err, errLost) || l != (lease.Lease{}) || saves != 1 {
		t.Errorf("%+v, %v, %d times", l, err, saves)
	}
}

// A read that was cut short is repeated.
func TestTableIsInterrupted(t *testing.T) {
	s := newDatabase().open()
	look, times := s.Look, 0
	s.Look = func(ctx context.Context, d *database, key string) (Record, error) {
		if times++; times < 3 {
			return Record{}, errInterrupted
		}
		return look(ctx, d, key)
	}
	if _, err := s.Pause(t.Context(), "k", time.Hour, "", ""); err != nil {
		t.Error(err)
	}
}

// A change that fails again and again, though nobody else changes the row, is given up with
// the reason.
func TestTableRefuses(t *testing.T) {
	contended := errors.New("could not serialize access")
	for _, refused := range []error{nil, contended} {
		d := newDatabase()
		s := d.open()
		tries := 0
		s.Save = func(context.Context, *database, Record, Effect) (bool, error, error) {
			if tries++; tries == refusals-1 {
				d.put("k", text(leasestate.New("k")))
			}
			return false, refused, nil
		}
		_, err := s.Pause(t.Context(), "k", time.Hour, "", "")
		if errors.As(err, new(*contendedError)) != (refused != nil) || refused != nil && !errors.Is(err, refused) || errors.Is(err, ErrNotSaved) != (refused == nil) {
			t.Errorf("refused for %v: %v", refused, err)
		}
		if want := 2*refusals - 1; tries != want {
			t.Errorf("%d tries, one change meanwhile: want %d", tries, want)
		}
	}
}

// A standby gives its connection back if connections are scarce.
func TestStandbyYields(t *testing.T) {
	d := newDatabase()
	s := d.open()
	settled(t, s, candidate("first"))
	if s.yields != 0 {
		t.Error("the holder gave up its connection")
	}
	if _, err := s.Acquire(t.Context(), candidate("second")); !errors.As(err, new(*lease.HeldError)) || s.yields != 1 {
		t.Errorf("%v, %d times", err, s.yields)
	}
}

// A standby that waits is woken as soon as the key is free.
func TestTableWakes(t *testing.T) {
	for name, free := range map[string]func(*rows, lease.Lease) error{
		"released": func(s *rows, l lease.Lease) error { return s.Release(t.Context(), l, lease.Result{}) },
		"revoked":  func(s *rows, _ lease.Lease) error { _, err := s.Revoke(t.Context(), "k", true); return err },
		"resumed":  func(s *rows, _ lease.Lease) error { _, err := s.Resume(t.Context(), "k"); return err },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newDatabase().open()
			l := settled(t, s, candidate("first"))
			if name == "resumed" {
				paused(t, s, l)
			}
			woken := make(chan error, 1)
			go func() { woken <- s.Wait(t.Context(), "k", time.Hour) }()
			synctest.Wait()
			must.Succeed(t, free(s, l))
			began := time.Now()
			if err := <-woken; err != nil || time.Since(began) > 0 {
				t.Errorf("%s: woken after %s, %v", name, time.Since(began), err)
			}
		})
	}
}

// paused pauses the key of a lease that is released.
func paused(t *testing.T, s *rows, l lease.Lease) {
	t.Helper()
	if _, err := s.Pause(t.Context(), "k", time.Hour, "", ""); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, s.Release(t.Context(), l, lease.Result{}))
}

// settled acquires the key, and waits while it settles.
func settled(t *testing.T, s *rows, r lease.Request) lease.Lease {
	t.Helper()
	if _, err := s.Acquire(t.Context(), r); !errors.As(err, new(*lease.SettlingError)) {
		t.Fatal(err)
	}
	s.ahead += time.Second
	return granted(t, s, r)
}
