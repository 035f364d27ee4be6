package file

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
)

// Inspect implements [lease.Admin]. It needs no turn: a file is replaced as a
// whole.
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

// Keys implements [lease.Admin]: the names of the files.
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

// HandOver implements [lease.Admin]. The holder learns of it by its next
// renewal.
func (s *Store) HandOver(ctx context.Context, key string) (lease.Status, error) {
	return s.operate(ctx, "hand over", key, func(st *leasestate.State, now leasestate.Instant) lease.Status {
		st.HandOver(now)
		return st.Status(now)
	})
}

// Revoke implements [lease.Admin]. The holder learns of it by its next
// renewal; standbys see it as they see a release.
func (s *Store) Revoke(ctx context.Context, key string, now bool) (lease.Status, error) {
	return s.operate(ctx, "revoke", key, func(st *leasestate.State, instant leasestate.Instant) lease.Status {
		before := st.Status(instant)
		st.Revoke(now, instant)
		return before
	})
}

// Pause implements [lease.Admin].
func (s *Store) Pause(ctx context.Context, key string, d time.Duration, by, reason string) (lease.Status, error) {
	return s.operate(ctx, "pause", key, func(st *leasestate.State, now leasestate.Instant) lease.Status {
		st.Pause(d, by, reason, now)
		return st.Status(now)
	})
}

// Resume implements [lease.Admin]. Standbys see it as they see a release.
func (s *Store) Resume(ctx context.Context, key string) (lease.Status, error) {
	return s.operate(ctx, "resume", key, func(st *leasestate.State, now leasestate.Instant) lease.Status {
		before := st.Status(now)
		st.Resume()
		return before
	})
}

func (s *Store) operate(ctx context.Context, op, key string, do func(*leasestate.State, leasestate.Instant) lease.Status) (lease.Status, error) {
	var status lease.Status
	_, err := s.update(ctx, op, key, func(st *leasestate.State, now leasestate.Instant) (lease.Lease, error) {
		status = do(st, now)
		return lease.Lease{}, nil
	})
	if err != nil { // an update that was given up may still go on
		return lease.Status{}, err
	}
	return status, nil
}
