package cmd

import (
	"fmt"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/settings"
)

func TestForget(t *testing.T) {
	s := storeAtNight()
	var b strings.Builder
	for _, key := range []string{"nightly", "reports", "backup", "mail", "gone", "odd", "report", "never"} {
		for _, token := range []bool{false, true} {
			s.asked = nil
			text, err := answer(t, func() error { return forget(t.Context(), s, key, token, settings.Told{}) })
			harmless(t, text, asTable)
			b.WriteString(fmt.Sprintf("> forget --key %s --with-token=%t  (asks: %s)\n%s", key, token, strings.Join(s.asked, ", "), text))
			if err != nil {
				b.WriteString("status 1\n")
			}
		}
	}
	golden(t, "forget.table", b.String())
}
