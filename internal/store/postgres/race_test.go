//go:build linux

package postgres

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/network/networktest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// race lets candidates, each with a connection, ask for a key at the same time, and checks
// that one of them is granted.
func race(t *testing.T, stores []*Store, key string) {
	t.Helper()
	var granted, denied atomic.Int32
	start := make(chan struct{})
	var end sync.WaitGroup
	for _, s := range stores {
		end.Go(func() {
			<-start
			_, err := s.Acquire(bounded(t), request(key))
			switch {
			case err == nil:
				granted.Add(1)
			case errors.As(err, new(*lease.HeldError)):
				denied.Add(1)
			default:
				t.Errorf("acquire: %v", err)
			}
		})
	}
	close(start)
	end.Wait()
	if granted.Load() != 1 || int(denied.Load()) != len(stores)-1 {
		t.Errorf("%s: %d granted and %d denied of %d", key, granted.Load(), denied.Load(), len(stores))
	}
}

func (b backend) racers(t *testing.T) []*Store {
	t.Helper()
	stores := make([]*Store, 25)
	for i := range stores {
		stores[i] = b.open(t)
	}
	return stores
}

func TestManyMakeTheTableAtOnce(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	for range 4 {
		stores := b.racers(t)
		race(t, stores, "k")
		for _, s := range stores {
			_ = s.Close()
		}
		b.do(t, "DROP TABLE leaderrun_leases")
	}
}

// A request that waits for a lock also ends in the server, and its error names the cause.
func TestLockedTable(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	r := request("k")
	l := grant(t, s, r)
	for name, lock := range map[string]string{
		"row":   "SELECT * FROM leaderrun_leases FOR UPDATE",
		"table": "LOCK TABLE leaderrun_leases",
	} {
		t.Run(name, func(t *testing.T) {
			locker := b.connect(t)
			if _, err := locker.Exec(bounded(t), "BEGIN; "+lock).ReadAll(); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err := s.Renew(ctx, l)
			networktest.WantError(t, err, false, "canceling statement due to lock timeout", "another transaction locks the table")
			if _, err := locker.Exec(bounded(t), "ROLLBACK").ReadAll(); err != nil {
				t.Fatal(err)
			}
			renew(t, s, l) // after the lock
			if n := b.one(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leaderrun'"); n != "1" {
				t.Errorf("%s connections are left", n)
			}
		})
	}
}

func (b backend) connect(t *testing.T) *pgconn.PgConn {
	t.Helper()
	c, err := pgconn.Connect(bounded(t), b.URL)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// If changes have no effect, without an error, a call must not go on for ever.
func TestTableThatTakesNothing(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := b.open(t)
	l := grant(t, s, request("k"))
	b.do(t, `CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
		CREATE TRIGGER nothing BEFORE INSERT OR UPDATE ON leaderrun_leases FOR EACH ROW EXECUTE FUNCTION nothing()`)
	networktest.WantError(t, networktest.NotRenewed(t, s, l), true, "does not take what is written", "trigger")
	_, err := b.open(t).Acquire(bounded(t), request("fresh"))
	networktest.WantError(t, err, true, "does not take what is written", "trigger")
	b.do(t, `CREATE OR REPLACE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF OLD IS NULL THEN NEW.version := 1; RETURN NEW; END IF; RETURN OLD; END'`)
	networktest.WantError(t, networktest.NotRenewed(t, s, l), true, "does not take what is written", "trigger")
	_, err = b.open(t).Acquire(bounded(t), request("other"))
	networktest.WantError(t, err, true, "does not take what is written", "trigger")
}
