package file

import (
	"context"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// Wait implements [lease.Store]. A release replaces the key's file, and the kernel notifies
// all standbys of this host. All ask for the key, one is granted it, and the others wait
// again. A holder that dies replaces nothing: callers use their own timer for the end of the
// lease.
//
// By default Linux allows a user 128 watches at a time. A standby without one polls.
func (s *Store) Wait(ctx context.Context, key string, atMost time.Duration) error {
	_, err := bounded(ctx, s.dir, "wait", func() (struct{}, error) {
		return struct{}{}, s.watch(ctx, key, atMost)
	})
	return err
}

// watch returns once the key is free, or atMost has passed.
func (s *Store) watch(ctx context.Context, key string, atMost time.Duration) error {
	over := time.After(atMost)
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
			if free, err := s.free(path, key); free || err != nil {
				return err
			}
		}
		select {
		case e := <-w.Events:
			look = e.Name == path+".json" || e.Name == s.dir // the key's file, or the directory itself is removed or moved
		case err := <-w.Errors: // events were lost: the caller asks again after a pause
			return failure(err)
		case <-over:
			return nil
		case <-ctx.Done():
			return failure(ctx.Err())
		}
	}
}

// free reports whether the key may be free. It needs no turn, since a file is replaced as a
// whole.
func (s *Store) free(path, key string) (bool, error) {
	st, _, err := load(path+".json", key)
	if err != nil {
		return false, err
	}
	now, err := s.now()
	if err != nil {
		return false, failure(err)
	}
	return st.Free(now), nil
}
