package file

import (
	"context"

	"github.com/fsnotify/fsnotify"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/keep"
)

// hear watches the file of a key: a change replaces it, and the kernel notifies all of this host.
// By default Linux allows a user 128 watches at a time. A standby without one polls.
func (s *Store) hear(ctx context.Context, bell keep.Bell, key string, until func(keep.Row) bool) error {
	_, err := bounded(ctx, s.dir, func() (struct{}, error) { return struct{}{}, s.watch(ctx, key, until) })
	return s.storeError(bell.Op(), err)
}

// watch returns once until is true of the key's row.
func (s *Store) watch(ctx context.Context, key string, until func(keep.Row) bool) error {
	path, err := s.path(key)
	if err != nil {
		return err
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return lease.ErrNoWakeups
	}
	// To end a watch takes the kernel some ten milliseconds, and the key is free now.
	defer func() { go func() { _ = w.Close() }() }()
	// It watches the directory, since a watch of the file would stay with the replaced one.
	// If there can be no watch, the next acquire reports why.
	if err := w.Add(s.dir); err != nil {
		return lease.ErrNoWakeups
	}
	// The first check sees what happened before the watch began. A renewal replaces the file,
	// too; then the key is not free.
	for look := true; ; {
		if look {
			if r, err := s.row(path, key); err != nil || until(r) {
				return err
			}
		}
		select {
		case e := <-w.Events:
			look = e.Name == path+".json" || e.Name == s.dir // the key's file, or the directory itself is removed or moved
		case err := <-w.Errors: // events were lost: the caller asks again after a pause
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
