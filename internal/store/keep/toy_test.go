package keep_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasetest"
	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// toy is the shortest store: a folder per key with the files 1, 2, 3 ..., of which the last one
// counts. They stay for ever, so no number comes back.
type toy struct {
	*keep.Store
	dir    string
	passed *atomic.Int64 // is added to the time
}

func openToy(dir string, passed *atomic.Int64) *toy {
	t := &toy{dir: dir, passed: passed}
	began := time.Now()
	t.Store = keep.New(keep.Config{
		Do:      t.do,
		Hear:    t.hear,
		Instant: rules.Instant{Boot: "toy", Settle: keep.Settle},
		Now:     func() time.Duration { return time.Since(began) + time.Duration(passed.Load()) },
	})
	return t
}

func (*toy) Close() error { return nil }

func (t *toy) do(ctx context.Context, op string, call func(context.Context, keep.Keeper) error) error {
	return failed(op, call(ctx, t))
}

func failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return &lease.StoreError{Op: op, Err: err, Permanent: errors.As(err, new(*keep.Untrusted)), Hint: "delete its folder"}
}

// hear asks again and again.
func (t *toy) hear(ctx context.Context, bell keep.Bell, key string, until func(keep.Row) bool) error {
	for {
		r, err := t.Read(ctx, key)
		if err != nil || until(r) {
			return failed(bell.Op(), err)
		}
		select {
		case <-ctx.Done():
			return failed(bell.Op(), ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
}

func (t *toy) folder(key string) string { return filepath.Join(t.dir, url.PathEscape(key)) }

func file(folder string, version int) string { return filepath.Join(folder, strconv.Itoa(version)) }

func (t *toy) Read(_ context.Context, key string) (keep.Row, error) {
	now := time.Now().Add(time.Duration(t.passed.Load())).UnixMilli()
	r := keep.Row{State: rules.New(key), Now: t.At(now, "")}
	files, err := os.ReadDir(t.folder(key))
	last := 0
	for _, f := range files {
		version, _ := strconv.Atoi(f.Name()) // 0 if it has yet to get its name
		last = max(last, version)
	}
	if last == 0 && (err == nil || errors.Is(err, fs.ErrNotExist)) {
		return r, nil
	}
	r.Version = last
	var text []byte
	if err == nil {
		text, err = os.ReadFile(file(t.folder(key), last))
	}
	if err != nil {
		return r, err
	}
	if r.State, err = t.Parse(key, text); err != nil {
		err = &keep.Untrusted{Place: "key " + key, Err: err}
	}
	return r, err
}

// Swap gives the next number to a file: link(2) lets only one have it.
func (t *toy) Swap(ctx context.Context, r keep.Row, _ keep.Effect) (keep.Row, bool, error) {
	version, _ := r.Version.(int)
	text, err := json.Marshal(r.State)
	if err != nil {
		return r, false, err
	}
	if err := os.MkdirAll(t.folder(r.Key), 0o700); err != nil {
		return r, false, err
	}
	f, err := os.CreateTemp(t.folder(r.Key), "draft")
	if err != nil {
		return r, false, err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return r, false, err
	}
	err = os.Link(f.Name(), file(t.folder(r.Key), version+1))
	if errors.Is(err, fs.ErrExist) {
		r, err = t.Read(ctx, r.Key)
		return r, false, err
	}
	return r, err == nil, err
}

func (t *toy) Names(context.Context) (names []string, err error) {
	folders, err := os.ReadDir(t.dir)
	for _, f := range folders {
		if key, err := url.PathUnescape(f.Name()); err == nil {
			names = append(names, key)
		}
	}
	return names, err
}

// The engine and the rules make a store of it.
func TestContract(t *testing.T) {
	dir, passed := t.TempDir(), new(atomic.Int64)
	folder := func(key string) string { return (&toy{dir: dir}).folder(key) }
	leasetest.Run(t, leasetest.Harness{
		Open:    func(*testing.T) lease.Store { return openToy(dir, passed) },
		Unit:    10 * time.Second,
		Advance: func(d time.Duration) { passed.Add(int64(d)) },
		Wakes:   true, WakesAll: true, Settles: true,
		Wipe: func(t *testing.T) { must.Succeed(t, os.RemoveAll(dir)) },
		Damage: []leasetest.Damage{{Name: "no state", Do: func(t *testing.T, key string) {
			must.Succeed(t, os.MkdirAll(folder(key), 0o700))
			must.Succeed(t, os.WriteFile(file(folder(key), 1000), []byte("{"), 0o600))
		}}},
	})
}
