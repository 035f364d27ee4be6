package cmd

import (
	"errors"
	"testing"
)

func TestHistory(t *testing.T) {
	for _, key := range []string{"nightly", "odd", "report", "never"} {
		for _, output := range []format{asTable, asJSON} {
			text, err := answer(t, func() error { return showHistory(t.Context(), storeAtNight(), key, output) })
			golden(t, "history-"+key+"."+output.String(), text)
			harmless(t, text, output)
			if errors.Is(err, errNo) != (key == "never") {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
}
