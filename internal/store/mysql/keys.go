package mysql

import (
	"context"
	"slices"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// Inspect implements [lease.Admin]. Where the table is missing it stays so.
func (s *Store) Inspect(ctx context.Context, key string) (lease.Status, error) {
	var status lease.Status
	err := s.conns.do(ctx, "status", func(c *conn) error {
		r, err := s.look(ctx, c, key)
		if is(err, noSuchTable) {
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
		found, err := c.query(ctx, `SELECT service_name FROM leaderrun_leases WHERE prefix = ?`, s.prefix)
		if is(err, noSuchTable) {
			return nil
		}
		for _, columns := range found {
			if key := columns[0]; lease.ValidKey(key) {
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
