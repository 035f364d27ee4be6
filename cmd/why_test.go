package cmd

import (
	"errors"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/report"
)

func TestWhy(t *testing.T) {
	for _, key := range []string{"nightly", "reports", "odd", "report", "never"} {
		for _, output := range []format{asTable, asJSON} {
			s, _ := storeAtNight().Inspect(t.Context(), key)
			d := report.Diagnose(s)
			if words := strings.Fields(d.Next); verbs()[words[1]]().ParseFlags(words[2:]) != nil {
				t.Errorf("%s is no command", d.Next)
			}
			text, err := answer(t, func() error { return printWhy(d, output) })
			golden(t, "why-"+key+"."+output.String(), text)
			harmless(t, text, output)
			if well := key == "nightly" || key == "reports"; errors.Is(err, errNo) == well {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
}
