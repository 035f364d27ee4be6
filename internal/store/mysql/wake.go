package mysql

import (
	"context"
	"crypto/md5" // only to shorten names: a lock's has at most 64 characters
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/cas"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// waiters is the number of sessions that can wait in a channel. Each takes one of the
// channel's named locks, and sleeps. To wake them, another session asks which sessions have these
// locks, and interrupts those; for sessions of the same user that needs no right. A session
// that finds no free lock polls. A session keeps its lock for its next wait, so its other
// statements may be interrupted, too; they are repeated.
const waiters = 8

// The kinds of channels: standbys sleep in the first, the holder in the second.
const (
	wakeKind = "leaderrun.wake."
	callKind = "leaderrun.call."
)

// channel returns the beginning of the names of a key's locks. All databases of a server
// share them. Neither a prefix nor a key has a space.
func (s *Store) channel(kind, key string) string {
	return kind + digest(s.conns.latest.Load().database+" "+s.Prefix+" "+key) + "."
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

// Wait implements [lease.Store]. A release wakes all standbys. A holder that dies wakes
// nobody: callers use their own timer for the end of the lease.
func (s *Store) Wait(ctx context.Context, key string, atMost time.Duration) error {
	if s.conns.Slots.Scarce() {
		return lease.ErrNoWakeups // it polls
	}
	end := time.Now().Add(atMost) //nolint:forbidigo // a context's deadline is on that clock
	waiting, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	woken, err := s.sleep(waiting, s.conns, "wait", wakeKind, key, func(r cas.Record) bool { return r.State.Free(r.Now) })
	switch {
	// The connection has the same deadline, and may notice its end before waiting does.
	case time.Until(end) <= 0 && ctx.Err() == nil: //nolint:forbidigo // as above
		return nil
	case err != nil && s.conns.Slots.Scarce():
		return lease.ErrNoWakeups
	case err == nil && !woken:
		<-waiting.Done()
	}
	return err
}

// Listen implements [lease.Pinger].
func (s *Store) Listen(ctx context.Context, key string) error {
	ctx, cancel := s.conns.Slots.UntilRefused(network.Holder(ctx))
	defer cancel()
	// The row shows whether a candidate called earlier: then the key settles. (A request to
	// hand over stays in the row until the release: the next renewal reports it.)
	_, err := s.sleep(ctx, s.listeners, "listen", callKind, key, func(r cas.Record) bool { return r.State.Settling != nil })
	return err
}

// sleep waits in a channel of key until shortly before ctx ends. woken: it was interrupted
// before that, or enough was true.
func (s *Store) sleep(ctx context.Context, conns *conns, op, kind, key string, enough func(cas.Record) bool) (woken bool, err error) {
	channel, full := s.channel(kind, key), false
	err = conns.do(ctx, op, func(c *conn) error {
		if err := c.join(ctx, channel); err != nil || c.channel == "" {
			full = err == nil
			return err
		}
		for {
			// The row shows what happened before the session had its lock.
			r, err := s.Read(ctx, c, key)
			if hasNumber(err, interrupted) {
				woken = true
				return nil
			}
			if woken = err == nil && enough(r); woken || err != nil {
				return err
			}
			nap := lookEvery
			if deadline, bounded := ctx.Deadline(); bounded {
				left := time.Until(deadline) //nolint:forbidigo // a context's deadline is on that clock
				nap = min(nap, left-min(waitEndsEarly, left/20))
				if nap < time.Millisecond {
					return nil
				}
			}
			if woken, err = s.nap(ctx, c, key, r.Version, nap); woken || err != nil {
				return err
			}
		}
	})
	if full || cas.IsPermanent(err) { // the next acquire reports what is wrong
		return false, lease.ErrNoWakeups
	}
	return woken, err
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
func (s *Store) nap(ctx context.Context, c *conn, key string, version int64, d time.Duration) (woken bool, err error) {
	found, err := c.query(ctx, sleepUnlessChanged, s.Prefix, key, version, d.Milliseconds())
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
