package networktest

import (
	"context"
	"testing"

	"github.com/leaderrun/leaderrun/internal/store/keep"
)

// RowMadeAnew checks that a change made for one row is not written to another row of the
// same key. sql runs a statement by another client, and open opens another store.
func RowMadeAnew(t *testing.T, s *keep.Store, sql func(string), open func() Store) {
	remove := func() { sql("DELETE FROM leaderrun_leases") }
	for name, change := range map[string]func(){
		"changed":   func() { sql("UPDATE leaderrun_leases SET version = version + 1") },
		"removed":   remove,
		"made anew": func() { remove(); Grant(t, open(), Request("k")) },
	} {
		t.Run(name, func(t *testing.T) {
			Grant(t, open(), Request("k"))
			err := s.Do(Bounded(t), "test", func(ctx context.Context, k keep.Keeper) error {
				r, err := k.Read(ctx, "k")
				if err != nil {
					return err
				}
				change()
				if _, saved, err := k.Swap(ctx, r, keep.Effect{}); saved || err != nil {
					t.Errorf("saved %t, %v", saved, err)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			remove()
		})
	}
}
