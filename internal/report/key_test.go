package report

import (
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// A holder can report anything as its command, and a lease that another tool took has
// no such report.
func TestStatusOfAForeignValue(t *testing.T) {
	const another = "db1/4711/0123456789abcdef0123456789abcdef"
	meta := `{"command":"` + strings.Repeat("x", 4000) + `"}`
	s := lease.Status{Key: "k", Why: lease.Held, Value: another, Holder: another, Meta: meta}
	for _, cells := range append(keyRows(s), listRow(s)) {
		if text := strings.Join(cells, " "); len(text) > 200 || strings.HasPrefix(text, "since") {
			t.Errorf("%.100s… of %d bytes", text, len(text))
		}
	}
}
