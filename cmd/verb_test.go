package cmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/settings/settingstest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares an answer with testdata/golden/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s (-update writes it anew)\ngot\n%s\nwant\n%s", file, got, want)
	}
}

// answer is what a verb prints, and how it ends.
func answer(t *testing.T, ask func() error) (string, error) {
	t.Helper()
	local := time.Local
	time.Local = time.UTC
	defer func() { time.Local = local }()
	out := swap(t, &os.Stdout)
	err := ask()
	return out(), err
}

// fakeStore is a store that holds what it is given, and remembers what it was asked.
type fakeStore struct {
	keys   map[string]lease.Status
	asked  []string
	failed error
	// damaged are the keys that cannot be read.
	damaged map[string]error
}

func (s *fakeStore) Inspect(_ context.Context, key string) (lease.Status, error) {
	status := s.keys[key]
	status.Key = key
	return status, cmp.Or(s.failed, s.damaged[key])
}

func (s *fakeStore) Keys(context.Context) ([]string, error) {
	return []string{"backup", "gone", "mail", "nightly", "odd", "report", "reports"}, s.failed
}

func (s *fakeStore) HandOver(ctx context.Context, key string) (lease.Status, error) {
	s.asked = append(s.asked, "hand over "+key)
	status, err := s.Inspect(ctx, key)
	status.HandOver = status.Why == lease.HeldLeader
	return status, err
}

func (s *fakeStore) Revoke(ctx context.Context, key string, now bool) (lease.Status, error) {
	s.asked = append(s.asked, "revoke "+key)
	if now {
		s.asked = append(s.asked, "now")
	}
	return s.Inspect(ctx, key)
}

func (s *fakeStore) Pause(ctx context.Context, key string, d time.Duration, by, reason string) (lease.Status, error) {
	s.asked = append(s.asked, fmt.Sprintf("pause %s for %s", key, d))
	status, err := s.Inspect(ctx, key)
	status.Pause = lease.Pause{Since: status.Now, Until: status.Now + d.Milliseconds(), By: "ann@db1", Reason: reason}
	return status, err
}

func (s *fakeStore) Forget(ctx context.Context, key string, token bool) (lease.Status, error) {
	s.asked = append(s.asked, "forget "+key)
	if token {
		s.asked = append(s.asked, "token")
	}
	return s.Inspect(ctx, key)
}

func (s *fakeStore) Resume(ctx context.Context, key string) (lease.Status, error) {
	s.asked = append(s.asked, "resume "+key)
	return s.Inspect(ctx, key)
}

// storeAtNight is a store at three in the morning: keys in every state.
func storeAtNight() *fakeStore {
	const db1, db2 = "db1/4711/0123456789abcdef0123456789abcdef", "db2/99/fedcba9876543210fedcba9876543210"
	three := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC).UnixMilli()
	at := func(d time.Duration) int64 { return three + d.Milliseconds() }
	now := at(12*time.Minute + 5*time.Second)
	run := func(day int, took time.Duration, exit int, holder lease.Holder) lease.Run {
		start := at(time.Duration(-24*day) * time.Hour)
		return lease.Run{Token: start + 7, Tick: start, Start: start + 7, End: start + 7 + took.Milliseconds(), Exit: exit, Host: holder.Host(), Holder: holder}
	}
	vanished := run(2, 0, 0, db2)
	vanished.Vanished, vanished.End = true, vanished.Start+40_000
	runs := []lease.Run{run(1, 93*time.Minute+4*time.Second, 0, db1), vanished, run(3, 1500*time.Millisecond, 143, db2)}
	const ttl = 30 * time.Second
	return &fakeStore{keys: map[string]lease.Status{
		"nightly": {
			Why: lease.HeldLeader, Value: db1, Holder: db1, Token: three + 9, Remaining: 24300 * time.Millisecond, TTL: ttl,
			Now: now, Since: at(9 * time.Millisecond), MinHold: at(time.Hour), Tick: at(2 * time.Millisecond), Served: at(-24 * time.Hour), Starts: 1,
			Meta: `{"command":"/opt/nightly.sh"}`, Runs: runs,
		},
		"reports": {Now: now, Token: three, Tick: three, Served: three, Starts: 2, Runs: runs[:1]},
		"backup":  {Why: lease.HeldCooldown, Value: "cooldown:" + db2, Token: three, Remaining: 61 * time.Second, TTL: ttl, Now: now, Runs: runs[1:2]},
		"brief":   {Why: lease.HeldCooldown, Value: db2, Token: three, Remaining: 61 * time.Second, TTL: ttl, Now: now},
		"mail":    {Why: lease.HeldRevoked, Value: "revoked:" + db2, Holder: db2, Since: at(time.Minute), Token: three, Remaining: ttl, TTL: ttl, Now: now},
		"gone":    {Holder: db2, Since: at(-36 * time.Hour), Token: three, TTL: ttl, Now: now, Meta: `{"command":"job"}`},
		"report": {
			Now: now, Token: three, Runs: runs[:1], Served: at(-24 * time.Hour), Starts: 2, Period: 24 * time.Hour,
			Pause: lease.Pause{Since: at(0), Until: at(2 * time.Hour), By: "ann@db1", Reason: "database upgrade"},
		},
		"odd": {
			Why: lease.HeldForeign, Value: "\x1b[2J\n\u009bodd\u202e\xff", Remaining: 0, Now: now, Token: -1,
			Meta: `{"command":"\u001b]0;x\u0007\n\u009b1m"}`, Runs: []lease.Run{{Host: "\x1b[31m", Holder: "\n/\x07/", Exit: -5, Start: -1, End: 1 << 62}},
		},
	}}
}

func TestStatusOfAKey(t *testing.T) {
	for _, key := range []string{"nightly", "reports", "backup", "mail", "gone", "odd", "report", "never"} {
		for _, output := range []format{asTable, asJSON} {
			text, err := keyText(t.Context(), storeAtNight(), key, output)
			golden(t, "status-"+key+"."+output.String(), text)
			if free := strings.HasPrefix(key, "report") || key == "gone" || key == "never"; errors.Is(err, errNo) != free || err != nil && !free {
				t.Errorf("%s ends with %v", key, err)
			}
			harmless(t, text, output)
		}
	}
}

// harmless wants nothing in text that does more to a terminal than to be read.
func harmless(t *testing.T, text string, output format) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%q in %q", r, text)
		}
	}
	if output == asJSON && !json.Valid([]byte(text)) {
		t.Errorf("not JSON: %s", text)
	}
}

func TestStatusOfAllKeys(t *testing.T) {
	for _, output := range []format{asTable, asJSON} {
		text, err := listText(t.Context(), storeAtNight(), output)
		if err != nil {
			t.Error(err)
		}
		golden(t, "status."+output.String(), text)
		harmless(t, text, output)
		if text, err = listText(t.Context(), &fakeStore{}, output); !errors.Is(err, errNo) || text == "" {
			t.Errorf("seven free keys: %q, %v", text, err)
		}
	}
}

// What a collector reads: every value, and texts of others in their place.
func TestMetricsOfAllKeys(t *testing.T) {
	s := storeAtNight()
	s.damaged = map[string]error{"gone": &lease.StoreError{Op: "status", Err: errors.New("WRONGTYPE"), Permanent: true}}
	hostile := s.keys["report"]
	hostile.Pause.By, hostile.Pause.Reason = "a\"b\\", "line\nnext \xff\x1b"
	s.keys["report"] = hostile
	text, err := metricsText(t.Context(), s, "")
	if !errors.Is(err, s.damaged["gone"]) {
		t.Error(err)
	}
	golden(t, "status.openmetrics", text)
	if text, err = metricsText(t.Context(), s, "nightly"); err != nil || !strings.Contains(text, "leaderrun_key_held{key_class=\"nightly\",key=\"nightly\"} 1\n") {
		t.Errorf("%v\n%s", err, text)
	}
}

// One key that is damaged does not hide the others.
func TestStatusOfADamagedKey(t *testing.T) {
	damage := &lease.StoreError{Op: "status", Err: errors.New("WRONGTYPE"), Permanent: true}
	for _, output := range []format{asTable, asJSON} {
		s := storeAtNight()
		s.damaged = map[string]error{"gone": damage}
		text, err := listText(t.Context(), s, output)
		if !errors.Is(err, damage) {
			t.Errorf("it ends with %v", err)
		}
		golden(t, "status-damaged."+output.String(), text)
	}
}

// A holder can say anything about its command, and other tools that take a lease
// say nothing about themselves.
func TestStatusOfAForeignValue(t *testing.T) {
	const another = "db1/4711/0123456789abcdef0123456789abcdef"
	meta := `{"command":"` + strings.Repeat("x", 4000) + `"}`
	s := lease.Status{Key: "k", Why: lease.HeldLeader, Value: another, Holder: another, Meta: meta}
	for _, cells := range append(statusRows(s), listRow(s)) {
		if text := strings.Join(cells, " "); len(text) > 200 || strings.HasPrefix(text, "since") {
			t.Errorf("%.100s… of %d bytes", text, len(text))
		}
	}
}

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

func TestPause(t *testing.T) {
	s := storeAtNight()
	var b strings.Builder
	for _, key := range []string{"nightly", "reports", "report", "never"} {
		for _, how := range []struct {
			flags string
			ask   func() error
		}{
			{"--for 2h", func() error { return pause(t.Context(), s, key, pauseFlags{last: "2h"}) }},
			{"--until T --reason R --hand-over", func() error {
				return pause(t.Context(), s, key, pauseFlags{until: "2026-11-21T06:00:00+02:00", reason: "why not", handOver: true})
			}},
			{"resume", func() error { return resume(t.Context(), s, key) }},
		} {
			s.asked = nil
			if s.keys[key].Now == 0 {
				s.keys[key] = lease.Status{Now: s.keys["nightly"].Now}
			}
			text, err := answer(t, how.ask)
			harmless(t, text, asTable)
			b.WriteString("> " + key + " " + how.flags + "  (asks: " + strings.Join(s.asked, ", ") + ")\n" + text)
			if err != nil {
				b.WriteString("status 1\n")
			}
		}
	}
	golden(t, "pause.table", b.String())
}

func TestForget(t *testing.T) {
	s := storeAtNight()
	var b strings.Builder
	for _, key := range []string{"nightly", "reports", "backup", "mail", "gone", "odd", "report", "never"} {
		for _, token := range []bool{false, true} {
			s.asked = nil
			text, err := answer(t, func() error { return forget(t.Context(), s, key, token) })
			harmless(t, text, asTable)
			b.WriteString(fmt.Sprintf("> forget --key %s --with-token=%t  (asks: %s)\n%s", key, token, strings.Join(s.asked, ", "), text))
			if err != nil {
				b.WriteString("status 1\n")
			}
		}
	}
	golden(t, "forget.table", b.String())
}

// listed is a store that lists the keys that it has.
type listed struct{ *fakeStore }

func (s listed) Keys(context.Context) ([]string, error) { return slices.Sorted(maps.Keys(s.keys)), nil }

// A key of which nothing is known any more is not listed.
func TestForgottenKeysAreNotListed(t *testing.T) {
	s := &fakeStore{keys: map[string]lease.Status{"old": {Now: 5}, "paused": {Now: 5, Pause: lease.Pause{Since: 4, Until: 6}}, "token": {Now: 5, Token: 3}}}
	text, err := listText(t.Context(), listed{s}, asTable)
	if strings.Contains(text, "old") || !strings.Contains(text, "paused") || !strings.Contains(text, "token") || !errors.Is(err, errNo) {
		t.Errorf("%s%v", text, err)
	}
}

// The end of a pause is an instant of the store's clock.
func TestLengthOfAPause(t *testing.T) {
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC).UnixMilli()
	for _, good := range []struct {
		flags pauseFlags
		want  time.Duration
	}{
		{pauseFlags{last: "1ms"}, time.Millisecond},
		{pauseFlags{last: "2160h"}, lease.MaxPause},
		{pauseFlags{until: "2026-11-21T06:00:00+02:00"}, time.Hour},
	} {
		if d, err := good.flags.length(now); err != nil || d != good.want {
			t.Errorf("%+v: %s, %v, want %s", good.flags, d, err, good.want)
		}
	}
	for problem, bad := range map[string]pauseFlags{
		"no end":            {},
		"another end":       {last: "1h", until: "2026-11-21T06:00:00Z"},
		"needs a unit":      {last: "5"},
		"is over already":   {last: "0s"},
		"is over":           {until: "2026-11-21T02:59:59Z"},
		"is no time":        {until: "06:00"},
		"more than 90 days": {last: "2160h1ms"},
		"than 90 days":      {until: "2027-11-21T06:00:00Z"},
	} {
		if d, err := bad.length(now); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%+v: %s, %v, want %q", bad, d, err, problem)
		}
	}
}

func TestStoreFailsAVerb(t *testing.T) {
	failed := &lease.StoreError{Op: "status", Err: errors.New("connection refused"), Hint: "start it"}
	s := &fakeStore{failed: failed}
	for name, ask := range map[string]func() error{
		"status":  func() error { return errOf(keyText(t.Context(), s, "k", asTable)) },
		"list":    func() error { return errOf(listText(t.Context(), s, asTable)) },
		"history": func() error { return showHistory(t.Context(), s, "k", asTable) },
		"release": func() error { return handOver(t.Context(), s, "k") },
		"force":   func() error { return revoke(t.Context(), s, "k", false) },
		"pause":   func() error { return pause(t.Context(), s, "k", pauseFlags{last: "1h"}) },
		"resume":  func() error { return resume(t.Context(), s, "k") },
		"forget":  func() error { return forget(t.Context(), s, "k", true) },
	} {
		if text, err := answer(t, ask); !errors.Is(err, failed) || text != "" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

func TestVerbsListTheirFlags(t *testing.T) {
	settingstest.NoSettings(t)
	for name := range verbs() {
		status, stdout, stderr := ran(t, name, "--help")
		if status != 0 || stderr != "" || !strings.Contains(stdout, "leaderrun "+name) {
			t.Errorf("%s --help: status %d, stdout %q, stderr %q", name, status, stdout, stderr)
		}
		for line := range strings.Lines(stdout) {
			if len(line) > 125 {
				t.Errorf("%s --help: %d columns: %s", name, len(line), line)
			}
		}
		if !strings.Contains(usage, " "+name) {
			t.Errorf("the usage lacks %s", name)
		}
	}
}

// help VERB is VERB --help.
func TestHelpOfAVerb(t *testing.T) {
	settingstest.NoSettings(t)
	for name := range verbs() {
		_, want, _ := ran(t, name, "--help")
		if status, got, stderr := ran(t, "help", name); status != 0 || got != want || stderr != "" {
			t.Errorf("help %s: status %d, %q, stderr %q", name, status, got, stderr)
		}
	}
}

// An answer that nobody gets is no success.
func TestAnswerThatCannotBeWritten(t *testing.T) {
	settingstest.NoSettings(t)
	asked := []string{
		"help", "help status", "--help", "--key k -h", "version", "config", "config -o json", "explain",
		"man", "man status", "completion bash", "completion zsh", "completion fish", "__complete stat",
	}
	for name := range verbs() {
		asked = append(asked, name+" --help")
	}
	unwritable, err := os.Open(os.DevNull) // for reading alone
	if err != nil {
		t.Fatal(err)
	}
	defer unwritable.Close()
	for _, args := range asked {
		stdout, stderr := os.Stdout, swap(t, &os.Stderr)
		os.Stdout = unwritable
		status := Main(strings.Fields(args))
		os.Stdout = stdout
		if text := stderr(); status != exitUsage || !strings.Contains(text, "leaderrun: the answer cannot be written: ") {
			t.Errorf("%s: status %d, stderr %q", args, status, text)
		}
	}
}

func TestVerbsRefuse(t *testing.T) {
	settingstest.NoSettings(t)
	for args, want := range map[string]string{
		"status k":                       "status takes no arguments",
		"status -o yaml":                 "is no format of this verb",
		"status --ttl 3s":                "unknown flag --ttl",
		"status --key":                   "--key: needs a value",
		"status --key a*b":               "not allowed",
		"status --store x://h":           "--store: the store's address must begin with",
		"status --store redis://h:99999": "--store: ",
		"status --prefix=":               "--prefix: is empty",
		"help me":                        "no such verb",
		"help status history":            "no such verb",
		"history":                        "no key",
		"release":                        "no key",
		"pause --for 1h":                 "no key",
		"pause --key k":                  "no end",
		"pause --key k --for 1h --reason " + strings.Repeat("x", 201): "201 characters are too long",
		"pause --key k --for 1h --reason \x1b":                        "is not allowed",
		"forget":                                                      "no key",
		"resume":                                                      "no key",
		"release --key k --now":                                       "--now: means nothing without --force",
		"release --key k --force=x":                                   "--force: is a switch",
		"explain --ttl 1":                                             "needs a unit",
		"explain --ttl 10s --renew 4s":                                "third of the TTL",
		"config --wait later":                                         "is not a duration",
		"config --config /none":                                       "cannot be read",
	} {
		status, stdout, stderr := ran(t, strings.Fields(args)...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 2 {
			t.Errorf("%s: status %d, stdout %q, stderr %q", args, status, stdout, stderr)
		}
	}
}

func TestTimeline(t *testing.T) {
	settingstest.NoSettings(t)
	for name, args := range map[string][]string{"30s.table": {}, "30s.json": {"-o", "json"}, "1s.table": {"--ttl", "1s"}, "unreliable.table": {"--profile", "unreliable", "-k", "1m"}} {
		status, stdout, stderr := ran(t, append([]string{"explain"}, args...)...)
		if status != 0 || stderr != "" {
			t.Errorf("%s: status %d, %s", name, status, stderr)
		}
		golden(t, "explain-"+name, stdout)
	}
}

func TestConfig(t *testing.T) {
	settingstest.NoSettings(t)
	t.Setenv("LEADERRUN_KILL_AFTER", "20s")
	file := settingstest.WriteFile(t, "store: redis://cron:s3cret@db:6379/0\nrejoin: true\n")
	for _, output := range []string{"table", "json"} {
		status, stdout, stderr := ran(t, "config", "--ttl", "1m", "--config", file, "-o", output)
		if status != 0 || stderr != "" || strings.Contains(stdout, "s3cret") {
			t.Errorf("status %d, %s%s", status, stdout, stderr)
		}
		stdout = regexp.MustCompile(` +FROM`).ReplaceAllString(strings.ReplaceAll(stdout, file, "FILE"), " FROM")
		golden(t, "config."+output, regexp.MustCompile(`(?m) {2,}(\S+( \S+)?)$`).ReplaceAllString(stdout, " $1"))
	}
}

func TestConfigShowsTheProfile(t *testing.T) {
	settingstest.NoSettings(t)
	_, stdout, _ := ran(t, "config", "--profile", "fast")
	if !regexp.MustCompile(`(?m)^ttl +15s +--profile$`).MatchString(stdout) {
		t.Error(stdout)
	}
}

func TestConfigMasksHooks(t *testing.T) {
	settingstest.NoSettings(t)
	t.Setenv("LEADERRUN_ON_LOST", "/bin/curl -d lost --url=https://u:s3cret@hooks/x?a=b")
	_, stdout, _ := ran(t, "config")
	if !strings.Contains(stdout, "/bin/curl -d lost --url=https://u:***@hooks/x?a=b ") {
		t.Error(stdout)
	}
}

func errOf(_ string, err error) error { return err }
