package file

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/keep"
)

// Names implements [keep.Keeper]. The names of the files give the keys.
func (k keeper) Names(ctx context.Context) ([]string, error) {
	return bounded(ctx, k.dir, func() (names []string, err error) {
		if bad := checkDir(k.dir); bad != nil {
			return nil, bad
		}
		entries, err := os.ReadDir(k.dir)
		for _, e := range entries {
			if name, ok := strings.CutSuffix(e.Name(), ".json"); ok {
				names = append(names, strings.ReplaceAll(name, "+", "/"))
			}
		}
		return names, err
	})
}

// Oldest implements [keep.Pruner].
func (k keeper) Oldest(ctx context.Context, now rules.Instant) ([]keep.Row, error) {
	const most = 10
	before := time.UnixMilli(now.Wall).Add(-rules.MinKeep)
	return bounded(ctx, k.dir, func() (rows []keep.Row, err error) {
		entries, err := os.ReadDir(k.dir)
		for _, e := range entries {
			name, ok := strings.CutSuffix(e.Name(), ".json")
			info, errInfo := e.Info()
			if !ok || errInfo != nil || !info.ModTime().Before(before) {
				continue
			}
			if r, err := k.row(k.dir+"/"+name, strings.ReplaceAll(name, "+", "/")); err == nil && r.Version != nil && r.Idle(now) {
				rows = append(rows, r)
			}
			if len(rows) == most {
				break
			}
		}
		return rows, err
	})
}

// Remove implements [keep.Pruner]. It leaves a key alone whose turn another process has.
func (k keeper) Remove(ctx context.Context, r keep.Row) error {
	_, err := bounded(ctx, k.dir, func() (struct{}, error) {
		path, err := k.path(r.Key)
		if err != nil {
			return struct{}{}, err
		}
		t, err := tryTurn(path)
		if t == nil || err != nil {
			return struct{}{}, err
		}
		defer t.end()
		if is, err := k.row(path, r.Key); err != nil || is.Version != r.Version {
			return struct{}{}, err
		}
		if err := os.Remove(path + ".json"); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, os.Remove(path + ".lock")
	})
	return err
}
