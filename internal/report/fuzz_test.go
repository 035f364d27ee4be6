package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/leaderrun/leaderrun/internal/lease"
)

// Whatever a store answers, the output is printable, and the JSON is valid.
func FuzzStatus(f *testing.F) {
	f.Add("held", "v", `{"command":"job"}`, int64(7), int64(1_700_000_000_000), int64(1_700_000_001_000), int64(time.Second), 3, true)
	f.Add("foreign", "\x1b]0;owned\x07\x1b[2J", `{"command":"\u001b[31m\u202e\n"}`, int64(-1), int64(-1), int64(1<<62), int64(-1), -1, false)
	f.Add("", "", "", int64(0), int64(0), int64(0), int64(0), 0, false)
	f.Add("cooldown", "\xff\xfe\x00", "{", int64(1<<53), int64(253402300799999), int64(253402300800000), int64(1<<62), 1<<40, true)
	f.Add("revoked", "a\tb\r\nc\u2028\U000e0001", `{"command":"\ttab"}`, int64(1), int64(1), int64(2), int64(3), 4, true)
	f.Fuzz(func(t *testing.T, why, value, meta string, token, start, end, left int64, exit int, odd bool) {
		holder := lease.Holder("host/12/00112233445566778899aabbccddeeff") // the only form that stores return
		s := lease.Status{
			Key: "nightly", Why: lease.How(why), Value: value, Meta: meta, Token: token, Since: start, Now: end, MinHoldUntil: end + left,
			Remaining: time.Duration(left), TTL: time.Duration(start), Tick: start, ServedTick: end, Starts: exit, HandOver: odd,
			Runs: []lease.Run{{Token: token, Tick: start, Start: start, End: end, Exit: exit, Vanished: odd, Host: "host", Holder: holder}},
		}
		if odd {
			s.Holder = holder
		}
		var text, structured bytes.Buffer
		WriteKey(&text, s)
		WriteKeys(&text, []lease.Status{s}, true)
		WriteJSON(&structured, KeyOf(s))
		if !json.Valid(structured.Bytes()) {
			t.Errorf("no JSON: %q", structured.String())
		}
		for _, shown := range []string{text.String(), structured.String()} {
			if strings.ContainsFunc(shown, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
				t.Errorf("not fit for a terminal: %q", shown)
			}
		}
	})
}
