package cmd

import (
	"errors"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/report"
	"github.com/leaderrun/leaderrun/internal/settings"
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

// Without a key the keys that are not well are told, the worst first, and commands ask the same store.
func TestWhyOfAllKeys(t *testing.T) {
	told := settings.Told{Flags: " --store file:/d"}
	for _, output := range []format{asTable, asJSON} {
		text, err := answer(t, func() error { return whyAll(storeAtNight(), told, output) })
		golden(t, "why."+output.String(), text)
		if !errors.Is(err, errNo) || !strings.Contains(text, "leaderrun history --store file:/d --key") && !strings.Contains(text, "leaderrun status --store file:/d --key") {
			t.Error(err, text)
		}
		harmless(t, text, output)
	}
	if text, err := answer(t, func() error { return whyAll(listed{&fakeStore{}}, told, asTable) }); err != nil || text != "all is well, keys: 0\n" {
		t.Errorf("%q, %v", text, err)
	}
}
