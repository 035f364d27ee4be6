package lease

import (
	"strings"
	"testing"
)

func TestHolder(t *testing.T) {
	seen := map[Holder]bool{}
	for _, host := range []string{"web-1.example", "", "häuser/und\nzeilen", strings.Repeat("x", 300), "-"} {
		h := NewHolder(host, 4194304)
		if !h.Valid() || seen[h] || h.Host() == "" {
			t.Errorf("%q for host %q", h, host)
		}
		seen[h] = true
	}
	if a, b := NewHolder("h", 1), NewHolder("h", 1); a == b {
		t.Errorf("two candidacies share the id %q", a)
	}
	good := strings.Repeat("0a", 16)
	for _, bad := range []Holder{"", "h", Holder(good), "h/1", Holder("h/1/" + good[1:]), Holder("h/1/" + good + "0"), Holder("h/1/" + strings.ToUpper(good)),
		Holder("/1/" + good), Holder("h//" + good), Holder("h/x/" + good), Holder("h h/1/" + good), Holder("h/1/" + good + "\n"), Holder("h/1/" + good + "/")} {
		if bad.Valid() {
			t.Errorf("%q counts as an id", bad)
		}
	}
}
