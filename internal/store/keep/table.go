package keep

import (
	"errors"
	"fmt"

	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/store/network"
)

// Errors of keepers that have a table leaderrun_leases in a database.

// ErrShape says that the table is another program's.
var ErrShape = errors.New("its table leaderrun_leases is not leaderrun's")

// NoTable says why the missing table cannot be created.
type NoTable struct{ Err error }

func (e *NoTable) Error() string { return e.Err.Error() }
func (e *NoTable) Unwrap() error { return e.Err }

// TableRow returns the place of a row in the table, for Untrusted.
func TableRow(prefix, key string) string {
	return fmt.Sprintf("the row of %s, %s in leaderrun_leases", prefix, key)
}

// Hints say, for one kind of database, what to do if the table is missing, belongs to
// another program, or takes no changes.
type Hints struct{ Table, Shape, NotSaved string }

// Complete adds to the server's message for err what it means for the table.
func (h Hints) Complete(said *network.Known, err error) {
	if said.Hint == h.Shape {
		said.Text = ErrShape.Error() + ": " + said.Text
	}
	switch {
	case errors.As(err, new(*NoTable)):
		said.Text = "the table leaderrun_leases is missing, and " + said.Text
		if said.Permanent {
			said.Hint = h.Table
		}
	case errors.Is(err, ErrNotSaved):
		said.Text = fmt.Sprintf("%d changes in a row were refused because of others: %s", refusals, said.Text)
	}
}

// Known returns the text and hint of an error of this package, nil for any other error.
func (h Hints) Known(err error) *network.Known {
	known := network.Known{Text: err.Error(), Permanent: true}
	switch {
	case errors.As(err, new(*Untrusted)):
		known.Hint = rules.Hint(err, "delete that row once no command of this key runs")
	case errors.Is(err, ErrShape):
		known.Hint = h.Shape
	case errors.Is(err, ErrNotSaved):
		known.Text, known.Hint = "its table leaderrun_leases does not take what is written to it", h.NotSaved
	default:
		return nil
	}
	return &known
}
