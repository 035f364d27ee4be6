package cas

import (
	"errors"
	"fmt"
	"testing"

	"github.com/leaderrun/leaderrun/internal/store/network"
)

var hints = Hints{Table: "make the table", Shape: "it is another version's", NotSaved: "look for a trigger"}

func TestErrorsOfATable(t *testing.T) {
	denied := errors.New("denied")
	for name, c := range map[string]struct {
		err        error
		text, hint string
	}{
		"another shape": {fmt.Errorf("%w: denied", ErrShape), ErrShape.Error() + ": denied", hints.Shape},
		"not saved":     {ErrNotSaved, ErrNotSaved.Error(), hints.NotSaved},
		"not trusted":   {&untrusted{denied}, "denied", "delete that row once no command of this key runs"},
	} {
		if got := hints.Known(c.err); got == nil || *got != (network.Known{Text: c.text, Hint: c.hint, Permanent: true}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := hints.Known(denied); got != nil {
		t.Errorf("the server's own error: %+v", got)
	}
}

// The message says what the error means for the table, and then has the server's own words.
func TestErrorsOfAServer(t *testing.T) {
	denied := errors.New("denied")
	for name, c := range map[string]struct {
		err        error
		said, want network.Known
	}{
		"nothing to add": {denied, network.Known{Text: "denied", Hint: "ask"}, network.Known{Text: "denied", Hint: "ask"}},
		"another shape":  {denied, network.Known{Text: "denied", Hint: hints.Shape}, network.Known{Text: ErrShape.Error() + ": denied", Hint: hints.Shape}},
		"no table, for good": {
			&noTable{denied}, network.Known{Text: "denied", Hint: "ask", Permanent: true},
			network.Known{Text: "the table leaderrun_leases is missing, and denied", Hint: hints.Table, Permanent: true},
		},
		"no table, for now": {
			&noTable{denied}, network.Known{Text: "denied", Hint: "ask"},
			network.Known{Text: "the table leaderrun_leases is missing, and denied", Hint: "ask"},
		},
		"refused again and again": {
			&contendedError{denied}, network.Known{Text: "denied", Hint: "ask"},
			network.Known{Text: "10 changes in a row were refused because of others: denied", Hint: "ask"},
		},
	} {
		if hints.Complete(&c.said, c.err); c.said != c.want {
			t.Errorf("%s: %+v, want %+v", name, c.said, c.want)
		}
	}
}
