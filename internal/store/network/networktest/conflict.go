package networktest

import (
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/store/keep"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// Conflicts checks that a keeper replaces a row only if it is still the one that was read. r asks
// for a key that s does not have yet. wipe deletes all rows.
func Conflicts(t *testing.T, s lease.Store, k keep.Keeper, r lease.Request, wipe func()) {
	t.Helper()
	read := func() keep.Row {
		row, err := k.Read(Bounded(t), r.Key)
		must.Succeed(t, err)
		return row
	}
	nothing := read()
	l := Grant(t, s, r)
	if now, saved, err := k.Swap(Bounded(t), nothing, keep.Effect{}); saved || err != nil || now.Token != l.Token {
		t.Errorf("a second one is made: %t, %v", saved, err)
	}
	late := read()
	if _, err := late.Renew(l, late.Now); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, s.Release(Bounded(t), l, lease.Result{Ran: true}))
	if now, saved, err := k.Swap(Bounded(t), late, keep.Effect{}); saved || err != nil || now.Grant != nil {
		t.Errorf("the renewal of a released lease is saved: %t, %v", saved, err)
	}
	gone := read()
	wipe()
	if now, saved, err := k.Swap(Bounded(t), gone, keep.Effect{}); saved || err != nil || now.Token != 0 {
		t.Errorf("what was deleted is changed: %t, %v", saved, err)
	}
}
