package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/settings"
	"github.com/leaderrun/leaderrun/internal/settings/settingstest"
)

// Whatever a store answers, what people and programs are shown is printable, and
// the JSON is JSON.
func FuzzStatus(f *testing.F) {
	f.Add("held", "v", `{"command":"job"}`, int64(7), int64(1_700_000_000_000), int64(1_700_000_001_000), int64(time.Second), 3, true)
	f.Add("foreign", "\x1b]0;owned\x07\x1b[2J", `{"command":"\u001b[31m\u202e\n"}`, int64(-1), int64(-1), int64(1<<62), int64(-1), -1, false)
	f.Add("", "", "", int64(0), int64(0), int64(0), int64(0), 0, false)
	f.Add("cooldown", "\xff\xfe\x00", "{", int64(1<<53), int64(253402300799999), int64(253402300800000), int64(1<<62), 1<<40, true)
	f.Add("revoked", "a\tb\r\nc\u2028\U000e0001", `{"command":"\ttab"}`, int64(1), int64(1), int64(2), int64(3), 4, true)
	f.Fuzz(func(t *testing.T, why, value, meta string, token, start, end, left int64, exit int, odd bool) {
		holder := lease.Holder("host/12/00112233445566778899aabbccddeeff") // stores return no other form
		s := lease.Status{
			Key: "nightly", Why: lease.HeldReason(why), Value: value, Meta: meta, Token: token, Since: start, Now: end, MinHold: end + left,
			Remaining: time.Duration(left), TTL: time.Duration(start), Tick: start, Served: end, Starts: exit, HandOver: odd,
			Runs: []lease.Run{{Token: token, Tick: start, Start: start, End: end, Exit: exit, Vanished: odd, Host: "host", Holder: holder}},
		}
		if odd {
			s.Holder = holder
		}
		var text, structured bytes.Buffer
		table(&text, statusRows(s))
		table(&text, runRows(s.Runs))
		table(&text, [][]string{listRow(s)})
		writeJSON(&structured, statusView(s))
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

// Whatever stands in the file, in a variable and on the command line: a
// configuration that is taken is a valid one, and one that is not is refused with
// what is wrong and what to do.
func FuzzConfiguration(f *testing.F) {
	f.Add("key: nightly\nttl: 30s\nstore: redis://h\n", "WAIT", "forever", "kill-after", "5s")
	f.Add("", "TTL", "1", "key", "a b")
	f.Add("key: [a]\n", "", "", "ttl", "-1s")
	f.Add("key: !!binary aGk=\nttl: 0x10\n", "KEY_", "x", "renew", "1h")
	f.Add("&a [*a]\n", "STORE", "redis://:p@h", "signal", "KILL")
	f.Add("key: k\nKEY: l\nttl: 1e400\n", "ONCE_PER", "24h", "wait", "25h")
	f.Add("\x00\xff: {", "KEY", "\x1b[2J", "prefix", "é")
	f.Fuzz(func(t *testing.T, text, variable, value, flag, given string) {
		if strings.Contains(text+value+given, "file:") || strings.ContainsAny(variable+value, "\x00") || strings.Contains(variable, "=") {
			t.Skip() // reads another file; no variable
		}
		settingstest.NoSettings(t)
		t.Setenv("LEADERRUN_"+variable, value)
		file := filepath.Join(t.TempDir(), "settings.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		flags := settings.NewFlags()
		if flags.Lookup(flag) == nil || flags.Set(flag, given) != nil {
			t.Skip()
		}
		c, err := readSettings(flags, []string{"true"}, []string{file})
		if err == nil {
			if err := c.Validate(); err != nil || !lease.ValidKey(c.Key) || c.TTL < time.Second || c.Renew > c.TTL/3 {
				t.Errorf("taken: %+v, %v", c, err)
			}
			return
		}
		var refused *settings.Error
		if !errors.As(err, &refused) || refused.Problem == "" || refused.Hint == "" {
			t.Errorf("refused with %#v", err)
		}
	})
}
