//go:build linux

package mysql

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// asleep starts a call that waits, and returns a channel for its result once it sleeps.
func asleep(t *testing.T, b backend, s *Store, bell keep.Bell, call func() error) <-chan error {
	t.Helper()
	over := networktest.Start(call)
	awaits(t, "session that sleeps", func() bool {
		select {
		case err := <-over:
			t.Fatalf("%s: it ended: %v", bell, err)
		default:
		}
		return b.waits(t, s.channelOf(bell, "k"))
	})
	return over
}

// A standby uses one connection for its waits and for the requests in between, and keeps it
// when it becomes the leader.
func TestStandbyHasOneConnection(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	var w networktest.Wire
	standby := openWith(t, Options{URL: b.URL, Dialer: w.Dial})
	networktest.StandbyHasOneConnection(t, b.open(t), standby, &w, lookEvery*9/10, func(call func() error) <-chan error {
		return asleep(t, b, standby, keep.Wake, call)
	})
}

// A session that cannot be interrupted, here because of its user, checks the row by itself.
func TestStandbyOfAnotherUser(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.do(t, "CREATE USER cron IDENTIFIED BY 'sesame'; GRANT ALL ON jobs.* TO cron")
	holder, standby := openWith(t, Options{URL: networktest.As(t, b.URL, "cron")}), b.open(t)
	l := grant(t, holder, request("k"))
	over := asleep(t, b, standby, keep.Wake, func() error { return standby.Wait(bounded(t), "k", time.Minute) })
	must.Succeed(t, holder.Release(bounded(t), l, lease.Result{}))
	began := time.Now()
	if err := endOf(t, over); err != nil || time.Since(began) > 2*lookEvery {
		t.Errorf("over after %s: %v", time.Since(began), err)
	}
}

// Only so many sessions can wait; the others poll.
func TestTooManyStandbys(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	grant(t, b.open(t), request("k"))
	for range waiters {
		s := b.open(t)
		go func() { _ = s.Wait(t.Context(), "k", time.Minute) }()
	}
	name := b.channel(t, keep.Wake, "k")
	awaits(t, "waiting standbys", func() bool {
		return b.do(t, fmt.Sprintf("SELECT IS_USED_LOCK('%s%d') IS NOT NULL", name, waiters-1)) == "1"
	})
	if err := b.open(t).Wait(bounded(t), "k", time.Minute); !errors.Is(err, lease.ErrNoWakeups) {
		t.Errorf("wait: %v, want ErrNoWakeups", err)
	}
}

func TestConnectionIsLostWhileWaiting(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	grant(t, s, request("k"))
	for _, c := range []struct {
		bell keep.Bell
		call func(s *Store) error
	}{ // in this order: the last case may keep the first lock of the standbys
		{keep.Wake, func(s *Store) error { return s.Wait(bounded(t), "k", time.Minute) }},
		{keep.Call, func(s *Store) error { return s.Listen(bounded(t), "k") }},
	} {
		over := asleep(t, b, s, c.bell, func() error { return c.call(s) })
		b.do(t, "KILL IS_USED_LOCK('"+s.channelOf(c.bell, "k")+"0')")
		var failure *lease.StoreError
		if err := endOf(t, over); !errors.As(err, &failure) || failure.Permanent {
			t.Errorf("%s: %v", c.bell, err)
		}
		awaits(t, "next wait", func() bool { return s.Wait(bounded(t), "k", 10*time.Millisecond) == nil })
	}
}

// Interrupted verbs are repeated: a session that has waited may be interrupted later.
func TestInterruptedVerbs(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	l := grant(t, s, request("k"))
	lock := "IS_USED_LOCK('" + s.channelOf(keep.Wake, "k") + "0')"
	awaits(t, "session that has waited", func() bool {
		must.Succeed(t, s.Wait(bounded(t), "k", 100*time.Millisecond))
		return b.do(t, "SELECT "+lock+" IS NOT NULL") == "1"
	})
	// Its statement is interrupted while it waits for the row.
	interrupted := make(chan error, 1)
	go func() {
		out, err := b.Do(`DELIMITER //
			START TRANSACTION // SELECT version FROM leaderrun_leases FOR UPDATE // DO GET_LOCK('locked', 0) //
			BEGIN NOT ATOMIC
				WHILE (SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT') = 0 DO DO SLEEP(0.11); END WHILE;
			END //
			KILL QUERY ` + lock + ` // COMMIT //`)
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		interrupted <- err
	}()
	awaits(t, "lock", func() bool { return b.do(t, "SELECT IS_USED_LOCK('locked') IS NOT NULL") == "1" })
	renew(t, s, l)
	must.Succeed(t, endOf(t, interrupted))
}

func TestNoConnectionIsLeft(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.do(t, createTable+"; CREATE USER cron IDENTIFIED BY 'sesame' WITH MAX_USER_CONNECTIONS 1; GRANT ALL ON jobs.* TO cron")
	leader := openWith(t, Options{URL: networktest.As(t, b.URL, "cron")})
	l := grant(t, leader, request("k"))
	networktest.WantError(t, leader.Listen(bounded(t), "k"), false, "(1226)", "this user's limits")
	renew(t, leader, l)
	standby := openWith(t, Options{URL: networktest.As(t, b.URL, "cron")})
	if err := standby.Wait(bounded(t), "k", time.Minute); !errors.Is(err, lease.ErrNoWakeups) {
		t.Errorf("wait: %v, want ErrNoWakeups", err)
	}
}

func TestRenewDuringWait(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	var w networktest.Wire
	s := openWith(t, Options{URL: b.URL, Dialer: w.Dial})
	networktest.RenewDuringWait(t, s, grant(t, s, request("k")), &w, "SLEEP")
}
