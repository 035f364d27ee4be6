package networktest

import (
	"context"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// Conflicts checks that a row is replaced only if it is still the one that was read, even if one of
// the same key was made anew. The stores of the same data have no key yet. wipe deletes all rows.
func Conflicts(t *testing.T, s lease.Store, other *keep.Store, wipe func()) {
	t.Helper()
	must.Succeed(t, other.Do(Bounded(t), "test", func(ctx context.Context, k keep.Keeper) error {
		read := func() keep.Row {
			row, err := k.Read(ctx, "k")
			must.Succeed(t, err)
			return row
		}
		refused := func(what string, r keep.Row) (now keep.Row) {
			now, saved, err := k.Swap(ctx, r, keep.Effect{})
			if saved || err != nil {
				t.Errorf("%s: %t, %v", what, saved, err)
			}
			return now
		}
		nothing := read()
		l := Grant(t, s, Request("k"))
		if now := refused("a second one is made", nothing); now.Token != l.Token {
			t.Errorf("%+v, want token %d", now, l.Token)
		}
		late := read()
		_, err := late.Renew(l, late.Now)
		must.Succeed(t, err)
		must.Succeed(t, s.Release(ctx, l, lease.Result{Ran: true}))
		if now := refused("the renewal of a released lease is saved", late); now.Grant != nil {
			t.Errorf("%+v", now)
		}
		gone := read()
		wipe()
		if now := refused("what was deleted is changed", gone); now.Token != 0 {
			t.Errorf("%+v", now)
		}
		Grant(t, s, Request("k"))
		refused("what was made anew is changed", gone)
		return nil
	}))
}
