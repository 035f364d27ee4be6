package networktest

import (
	"testing"

	"github.com/leaderrun/leaderrun/internal/store/cas"
)

// RowMadeAnew checks that a change made for one row is not written to another row of the
// same key. sql runs a statement by another client, and open opens another store.
func RowMadeAnew[C any](t *testing.T, table *cas.Table[C], sql func(string), open func() Store) {
	remove := func() { sql("DELETE FROM leaderrun_leases") }
	for name, change := range map[string]func(){
		"changed":   func() { sql("UPDATE leaderrun_leases SET version = version + 1") },
		"removed":   remove,
		"made anew": func() { remove(); Grant(t, open(), Request("k")) },
	} {
		t.Run(name, func(t *testing.T) {
			Grant(t, open(), Request("k"))
			err := table.Do(Bounded(t), "test", func(c C) error {
				r, err := table.Read(Bounded(t), c, "k")
				if err != nil {
					return err
				}
				change()
				if saved, _, err := table.Save(Bounded(t), c, r, cas.Effect{}); saved || err != nil {
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
