package mysql

import (
	"context"
	"crypto/md5" // only to shorten names: a lock's has at most 64 characters
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// waiters is the number of sessions that can wait in a channel. Each takes one of the
// channel's named locks, and sleeps. To wake them, another session asks which sessions have these
// locks, and interrupts those; for sessions of the same user that needs no right. A session
// that finds no free lock polls. A session keeps its lock for its next wait, so its other
// statements may be interrupted, too; they are repeated.
const waiters = 8

// channelOf returns the beginning of the names of a key's locks. All databases of a server
// share them. Neither a prefix nor a key has a space.
func (s *Store) channelOf(bell keep.Bell, key string) string {
	return "leaderrun." + string(bell) + "." + digest(s.conns.latest.Load().database+" "+s.prefix+" "+key) + "."
}

// digest returns a short name for a text of any length.
func digest(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

func locks(channel string) (names []any) {
	for i := range waiters {
		names = append(names, channel+string(rune('0'+i)))
	}
	return names
}

// wake interrupts the sessions that wait in channels, as far as they are of the same user. It
// returns no error: the change has been made, and the sessions check their row by themselves.
func (c *conn) wake(ctx context.Context, channels []string) {
	for _, channel := range channels {
		ask := strings.Join(slices.Repeat([]string{"NULLIF(IS_USED_LOCK(?), CONNECTION_ID())"}, waiters), ", ")
		found, err := c.query(ctx, "SELECT "+ask, locks(channel)...)
		if err != nil || len(found) != 1 {
			return
		}
		for _, session := range found[0] {
			if session != "" {
				_, _ = c.exec(ctx, "KILL QUERY "+session)
			}
		}
	}
}

const (
	// lookEvery is how often a session that waits checks the row by itself: it may not have
	// been interrupted, because of another user or a proxy.
	lookEvery = 5 * time.Second
	// waitEndsEarly is how long before its end a wait gives its connection back: the attempt
	// at that end, with --wait the last one, has no time to open another.
	waitEndsEarly = 100 * time.Millisecond
)

// hear waits in a channel of key until shortly before ctx ends, and then for that end. A session
// without a free lock polls.
func (s *Store) hear(ctx context.Context, bell keep.Bell, key string, until func(keep.Row) bool) error {
	conns := s.conns
	if bell == keep.Call {
		conns = s.listeners
	}
	woken, full := false, false
	calling, cancel := network.Lingering(ctx)
	defer cancel()
	err := conns.do(calling, bell.Op(), func(c *conn) (err error) {
		if err := c.join(calling, s.channelOf(bell, key)); err != nil || c.channel == "" {
			full = err == nil
			return err
		}
		woken, err = s.sleep(ctx, keeper{s, c}, key, until)
		return err
	})
	if full {
		return lease.ErrNoWakeups
	}
	if err == nil && !woken {
		<-ctx.Done()
		err = ctx.Err()
	}
	return err
}

// sleep returns true once it is interrupted, or until is true.
func (s *Store) sleep(ctx context.Context, k keeper, key string, until func(keep.Row) bool) (woken bool, err error) {
	for {
		// The row shows what happened before the session had its lock.
		r, err := k.Read(ctx, key)
		if err != nil || until(r) {
			return err == nil, err
		}
		left := network.Left(ctx)
		nap := min(lookEvery, left-min(waitEndsEarly, left/20))
		if nap < time.Millisecond {
			return false, nil
		}
		version, _ := r.Version.(int64)
		if woken, err := k.nap(ctx, key, version, nap); woken || err != nil {
			return woken, err
		}
	}
}

// join takes one of the channel's locks for the session. Without a free one the session's
// channel is "".
func (c *conn) join(ctx context.Context, channel string) error {
	if c.channel == channel {
		return nil
	}
	if c.channel != "" {
		c.channel = ""
		if _, err := c.exec(ctx, "DO RELEASE_ALL_LOCKS()"); err != nil {
			return err
		}
	}
	names := locks(channel)
	free := strings.Join(slices.Repeat([]string{"GET_LOCK(?, 0)"}, len(names)), " OR ")
	found, err := c.query(ctx, "SELECT COALESCE("+free+", 0)", names...)
	if err != nil {
		return err
	}
	if len(found) != 1 || len(found[0]) != 1 {
		return errNoAnswer
	}
	if found[0][0] == "1" {
		c.channel = channel
	}
	return nil
}

// sleepUnlessChanged sleeps, unless the row has changed: the session that changed it may have
// tried to interrupt this one before it slept. The statement must be short, since the server
// keeps a snapshot of the table for it.
const sleepUnlessChanged = `SELECT IF(COALESCE((SELECT version FROM leaderrun_leases WHERE prefix = ? AND service_name = ?), 0) = ?, SLEEP(? / 1000), 0)`

// nap sleeps for d if the row's version is still this one, and reports whether it was
// interrupted.
func (k keeper) nap(ctx context.Context, key string, version int64, d time.Duration) (woken bool, err error) {
	found, err := k.query(ctx, sleepUnlessChanged, k.prefix, key, version, d.Milliseconds())
	switch {
	case hasNumber(err, interrupted):
		return true, nil
	case hasNumber(err, statementTimeouts...):
		return false, nil
	case err != nil:
		return false, err
	case len(found) != 1 || len(found[0]) != 1:
		return false, errNoAnswer
	}
	return found[0][0] == "1", nil // older servers return 1 if SLEEP was interrupted
}
