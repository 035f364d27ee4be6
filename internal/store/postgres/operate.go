package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/leasestate"
)

const listKeys = `SELECT service_name FROM leaderrun_leases WHERE prefix = $1`

// Inspect implements [lease.Admin]. Where the table is missing it stays so.
func (s *Store) Inspect(ctx context.Context, key string) (lease.Status, error) {
	var status lease.Status
	err := s.conns.do(ctx, "status", func(c *conn) error {
		r, err := s.look(ctx, c, key)
		if hasState(err, undefinedTable) {
			err = nil
		}
		status = r.state.Status(r.now)
		return err
	})
	if err != nil {
		return lease.Status{}, err
	}
	return status, nil
}

// Keys implements [lease.Admin].
func (s *Store) Keys(ctx context.Context) ([]string, error) {
	keys := []string{}
	err := s.conns.do(ctx, "list", func(c *conn) error {
		found, err := c.run(ctx, statement{listKeys, []string{s.prefix}})
		if hasState(err, undefinedTable) {
			return nil
		}
		for _, columns := range found {
			if len(columns) != 1 {
				return errNoAnswer
			}
			if key := string(columns[0]); lease.ValidKey(key) {
				keys = append(keys, key)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(keys)
	return keys, nil
}

// HandOver implements [lease.Admin]. The holder is called.
func (s *Store) HandOver(ctx context.Context, key string) (lease.Status, error) {
	return s.operate(ctx, verb{op: "hand over", key: key, channels: s.channel(callKind, key)}, func(st *leasestate.State, now leasestate.Instant) lease.Status {
		st.HandOver(now)
		return st.Status(now)
	})
}

// Revoke implements [lease.Admin]. The holder is called, and those who wait look
// whether the key is free.
func (s *Store) Revoke(ctx context.Context, key string, now bool) (lease.Status, error) {
	channels := s.channel(callKind, key) + " " + s.channel(wakeKind, key)
	return s.operate(ctx, verb{op: "revoke", key: key, channels: channels}, func(st *leasestate.State, instant leasestate.Instant) lease.Status {
		before := st.Status(instant)
		st.Revoke(now, instant)
		return before
	})
}

// Pause implements [lease.Admin].
func (s *Store) Pause(ctx context.Context, key string, d time.Duration, by, reason string) (lease.Status, error) {
	return s.operate(ctx, verb{op: "pause", key: key}, func(st *leasestate.State, now leasestate.Instant) lease.Status {
		st.Pause(d, by, reason, now)
		return st.Status(now)
	})
}

// Resume implements [lease.Admin]. Those who wait look whether the key is free.
func (s *Store) Resume(ctx context.Context, key string) (lease.Status, error) {
	return s.operate(ctx, verb{op: "resume", key: key, channels: s.channel(wakeKind, key)}, func(st *leasestate.State, now leasestate.Instant) lease.Status {
		before := st.Status(now)
		st.Resume()
		return before
	})
}

func (s *Store) operate(ctx context.Context, v verb, do func(*leasestate.State, leasestate.Instant) lease.Status) (status lease.Status, err error) {
	v.change = func(st *leasestate.State, now leasestate.Instant) (lease.Lease, error) {
		status = do(st, now)
		return lease.Lease{}, nil
	}
	if _, err := s.update(ctx, v); err != nil {
		return lease.Status{}, err
	}
	return status, nil
}
