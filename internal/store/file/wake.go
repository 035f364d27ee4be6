package file

import (
	"context"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// Wait implements [lease.Store]. A release replaces the key's file, of which the
// kernel notifies every standby of this host: they race for the key's turn, one is
// granted, and the others wait again. On one host that is cheap, so nobody has
// to pass a wake-up on. A holder that dies replaces nothing; the caller's own
// timer at the end of the lease covers that.
//
// A user may have 128 watches at a time by Linux' default. A standby without one
// polls.
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
	// The kernel takes some ten milliseconds over a watch's end; the key is free now.
	defer func() { go func() { _ = w.Close() }() }()
	// The directory, since a watch of the file would stay with the one that is
	// replaced. The next acquire reports why there can be none.
	if err := w.Add(s.dir); err != nil {
		return lease.ErrNoWakeups
	}
	// The first look sees what happened before the watch began. A renewal replaces the
	// file, too: then the look finds that the key is not free.
	for look := true; ; {
		if look {
			if free, err := s.free(path, key); free || err != nil {
				return err
			}
		}
		select {
		case e := <-w.Events:
			look = e.Name == path+".json" || e.Name == s.dir // removed or moved away, all with it
		case err := <-w.Errors: // events are lost: the caller asks after a pause
			return failure(err)
		case <-over:
			return nil
		case <-ctx.Done():
			return failure(ctx.Err())
		}
	}
}

// free reports whether it is worth asking for the key. It needs no turn: a file
// is replaced as a whole.
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
