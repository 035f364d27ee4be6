package postgres

import (
	"context"
	"slices"

	"github.com/leaderrun/leaderrun/internal/lease"
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
