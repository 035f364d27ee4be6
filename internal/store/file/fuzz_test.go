package file

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/lease/rules"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// A file that somebody else wrote is refused with a permanent error, or the rules can go on
// with its state.
func FuzzState(f *testing.F) {
	id := "host/1/" + strings.Repeat("0a", 16)
	f.Add([]byte(`{"version":1,"key":"k","token":0}`))
	f.Add([]byte(`{"version":1,"key":"k","token":7,"grant":{"holder":"` + id + `","ttl_ms":1000,"boot":"b","expires":5000,"meta":"{}"}}`))
	f.Add([]byte(`{"version":1,"key":"k","token":9007199254740992,"grant":{"holder":"` + id + `","ttl_ms":9223372036854775807,"boot":"b"}}`))
	f.Add([]byte(`{"version":1,"key":"k","runs":[{"token":-1}],"missed":{"boot":"b"},"starts":9223372036854775807}`))
	f.Add([]byte(`{"version":2,"key":"k"}`))
	f.Add([]byte(``))
	f.Add([]byte(`{"version":1,"key":"k","token":"7"}`))
	s := open(f, f.TempDir())
	path := filepath.Join(s.dir, "k.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		must.Succeed(t, os.WriteFile(path, text, 0o600))
		r, err := keeper{s}.Read(t.Context(), "k")
		var refused *lease.StoreError
		if err = s.storeError("read", err); err != nil {
			if !errors.As(err, &refused) || !refused.Permanent || refused.Hint == "" || strings.Contains(err.Error(), "Go struct") {
				t.Errorf("%q: %#v", text, err)
			}
			return
		}
		before, now := r.Token, rules.Instant{Boot: "b", Up: 4000, Wall: 1_700_000_000_000}
		l, err := r.Acquire(lease.Request{Key: "k", Holder: lease.NewHolder("other", 1), TTL: time.Second}, now)
		if err == nil && l.Token <= before {
			t.Errorf("token %d was granted after %d", l.Token, before)
		}
	})
}
