package file

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// Inspect implements [lease.Admin]. It needs no turn, since a file is replaced as a whole.
func (s *Store) Inspect(ctx context.Context, key string) (lease.Status, error) {
	return bounded(ctx, s.dir, "status", func() (lease.Status, error) {
		path, err := s.path(key)
		if err != nil {
			return lease.Status{}, err
		}
		if bad := checkDir(s.dir); bad != nil {
			return lease.Status{}, bad
		}
		st, _, err := load(path+".json", key)
		if err != nil {
			return lease.Status{}, err
		}
		now, err := s.now()
		if err != nil {
			return lease.Status{}, failure(err)
		}
		return st.Status(now), nil
	})
}

// Keys implements [lease.Admin]. The names of the files give the keys.
func (s *Store) Keys(ctx context.Context) ([]string, error) {
	return bounded(ctx, s.dir, "list", func() ([]string, error) {
		if bad := checkDir(s.dir); bad != nil {
			return nil, bad
		}
		entries, err := os.ReadDir(s.dir)
		if err != nil {
			return nil, failure(err)
		}
		keys := []string{}
		for _, e := range entries {
			name, ok := strings.CutSuffix(e.Name(), ".json")
			if key := strings.ReplaceAll(name, "+", "/"); ok && lease.ValidKey(key) {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		return keys, nil
	})
}
