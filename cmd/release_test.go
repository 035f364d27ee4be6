package cmd

import (
	"strings"
	"testing"
)

func TestRelease(t *testing.T) {
	s := storeAtNight()
	var b strings.Builder
	for _, key := range []string{"nightly", "reports", "backup", "brief", "mail", "gone", "odd"} {
		for _, how := range []struct {
			flags string
			ask   func() error
		}{
			{"", func() error { return handOver(t.Context(), s, key) }},
			{"--force", func() error { return revoke(t.Context(), s, key, false) }},
			{"--force --now", func() error { return revoke(t.Context(), s, key, true) }},
		} {
			s.asked = nil
			text, err := answer(t, how.ask)
			harmless(t, text, asTable)
			b.WriteString("> release --key " + key + " " + how.flags + "  (asks: " + strings.Join(s.asked, ", ") + ")\n" + text)
			if err != nil {
				b.WriteString("status 1\n")
			}
		}
	}
	golden(t, "release.table", b.String())
}
