package settings_test

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/settings"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

func TestSetReadsValues(t *testing.T) {
	tests := []struct {
		name, value string
		want        func(settings.Config) bool
	}{
		{"key", "Az09._:/-x", func(c settings.Config) bool { return c.Key == "Az09._:/-x" }},
		{"key", strings.Repeat("k", 200), func(c settings.Config) bool { return len(c.Key) == 200 }},
		{"prefix", "team:a", func(c settings.Config) bool { return c.Prefix == "team:a" }},
		{"store", "redis://u:p@h/1", func(c settings.Config) bool { return c.Store == "redis://u:p@h/1" }},
		{"ttl", "1h30m", func(c settings.Config) bool { return c.TTL == 90*time.Minute }},
		{"renew", "1.5s", func(c settings.Config) bool { return c.Renew == 1500*time.Millisecond }},
		{"profile", "fast", func(c settings.Config) bool { return c.Profile == settings.Fast }},
		{"wait", "0", func(c settings.Config) bool { return c.Wait == 0 }},
		{"wait", "forever", func(c settings.Config) bool { return c.Wait == candidate.Forever }},
		{"skip-exit-code", "255", func(c settings.Config) bool { return c.SkipExitCode == 255 && c.SkipExitCodeNamed }},
		{"kill-after", "0", func(c settings.Config) bool { return c.KillAfter == 0 }},
		{"lost-grace", "250ms", func(c settings.Config) bool { return c.LostGrace == 250*time.Millisecond }},
		{"on-renew-error", "stop", func(c settings.Config) bool { return c.StopOnRenewError }},
		{"on-renew-error", "retry", func(c settings.Config) bool { return !c.StopOnRenewError }},
		{"rejoin", "true", func(c settings.Config) bool { return c.Rejoin }},
		{"eligible", "test -e /run/primary", func(c settings.Config) bool { return slices.Equal(c.Eligible, []string{"test", "-e", "/run/primary"}) }},
		{"once-per", "24h", func(c settings.Config) bool { return c.OncePer == 24*time.Hour }},
		{"once-per", "0 3 * * *", func(c settings.Config) bool { return c.OncePer == 0 && c.Schedule.String() == "0 3 * * *" }},
		{"once-per", "@daily", func(c settings.Config) bool { return c.Schedule != nil }},
		{"once-per", " CRON_TZ=Europe/Berlin  0 3 * * 1-5 ", func(c settings.Config) bool { return c.Schedule.String() == "CRON_TZ=Europe/Berlin 0 3 * * 1-5" }},
		{"tick", "2026-03-01T03:00:00+01:00", func(c settings.Config) bool { return c.Tick == 1_772_330_400_000 }},
		{"tick", "2026-03-01T02:00:00.25Z", func(c settings.Config) bool { return c.Tick == 1_772_330_400_250 }},
		{"tick", "@1772330400", func(c settings.Config) bool { return c.Tick == 1_772_330_400_000 }},
		{"tick", "1772330400123456", func(c settings.Config) bool { return c.Tick == 1_772_330_400_123 }},
		{"tries", "1000", func(c settings.Config) bool { return c.Tries == 1000 }},
		{"metrics-listen", ":9090", func(c settings.Config) bool { return c.MetricsListen == "127.0.0.1:9090" }},
		{"metrics-listen", "0.0.0.0:9090", func(c settings.Config) bool { return c.MetricsListen == "0.0.0.0:9090" }},
		{"metrics-listen", "[::1]:0", func(c settings.Config) bool { return c.MetricsListen == "[::1]:0" }},
		{"on-lost", " a  b=c d&e ", func(c settings.Config) bool { return slices.Equal(c.OnLost, []string{"a", "b=c", "d&e"}) }},
		{"metrics-textfile", "/tmp/a b", func(c settings.Config) bool { return c.MetricsTextfile == "/tmp/a b" }},
		{"verbose", "true", func(c settings.Config) bool { return c.Verbose == 1 }},
		{"verbose", "2", func(c settings.Config) bool { return c.Verbose == 2 }},
		{"quiet", "false", func(c settings.Config) bool { return !c.Quiet }},
		{"log-format", "json", func(c settings.Config) bool { return c.JSONLog }},
		{"log-format", "text", func(c settings.Config) bool { return !c.JSONLog }},
	}
	for _, tt := range tests {
		c := settings.Default()
		if err := c.Set(tt.name, tt.value); err != nil || !tt.want(c) {
			t.Errorf("Set(%q, %q) = %v, gives %+v", tt.name, tt.value, err, c)
		}
	}
}

func TestSetReadsSignals(t *testing.T) {
	tests := map[string]syscall.Signal{
		"TERM": syscall.SIGTERM, "SIGTERM": syscall.SIGTERM, "term": syscall.SIGTERM, "SigTerm": syscall.SIGTERM, "15": syscall.SIGTERM,
		"INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "1": syscall.SIGHUP, "QUIT": syscall.SIGQUIT, "USR1": syscall.SIGUSR1,
		"KILL": syscall.SIGKILL, "9": syscall.SIGKILL, "WINCH": syscall.SIGWINCH, "IOT": syscall.SIGABRT, "64": 64,
	}
	for value, want := range tests {
		c := settings.Default()
		if err := c.Set("signal", value); err != nil || c.Signal != want || !c.SignalNamed {
			t.Errorf("signal %q = %v, %v; want %v", value, c.Signal, err, want)
		}
	}
	for _, value := range []string{"0", "STOP", "19", "SIGTSTP", "ttin", "TTOU", "CONT", "65", "-15", "+15", "TERMX", "SIG", "SIGSIGTERM", "15s", " TERM", "EXIT"} {
		c := settings.Default()
		if err := c.Set("signal", value); err == nil {
			t.Errorf("signal %q was taken as %v", value, c.Signal)
		}
	}
}

func TestSetRefuses(t *testing.T) {
	tests := []struct{ name, value, problem string }{
		{"key", "", "empty"},
		{"key", "a b", `' '`},
		{"key", "a\n", `'\n'`},
		{"key", "grün", `'ü'`},
		{"key", strings.Repeat("k", 201), "201 characters"},
		{"key", "--ttl", "begins like a flag"},
		{"prefix", "a*", `'*'`},
		{"store", "", "empty"},
		{"store", "redis://h/0\n", "line break"},
		{"metrics-textfile", "", "empty"},
		{"metrics-listen", "9090", "not an address"},
		{"metrics-listen", ":http", "not an address"},
		{"metrics-listen", ":65536", "not an address"},
		{"metrics-listen", "::1:9090", "not an address"},
		{"on-acquire", "  ", "is blank"},
		{"on-lost", "a 'b c'", "and no shell reads it"},
		{"ping", "hc-ping.com/s3cret", "is no URL"},
		{"on-skip", "a | b", "and no shell reads it"},
		{"on-end", "a >>/b", "contains >>, and no shell reads it"},
		{"eligible", "a 2>/b", "contains 2>, and no shell reads it"},
		{"eligible", "a b; c", "contains ;, and no shell reads it"},
		{"metrics-textfile", "", "empty"},
		{"ttl", "", "empty"},
		{"ttl", "30", "needs a unit"},
		{"ttl", "0", "longer than 0"},
		{"ttl", "-5s", "negative"},
		{"ttl", "5 s", "not a duration"},
		{"ttl", "Inf", "not a duration"},
		{"ttl", "0x10s", "not a duration"},
		{"ttl", "forever", "only --wait"},
		{"ttl", "87600h1ms", "ten years"},
		{"ttl", "99999999999999h", "not a duration"},
		{"ttl", "1.0001s", "finer than a millisecond"},
		{"wait", "never", "not a duration"},
		{"once-per", "daily", "not a duration"},
		{"once-per", "24 h", "is no schedule: has 2 fields"},
		{"once-per", "0 3 * *", "is no schedule: has 4 fields"},
		{"once-per", "0 25 * * *", "is no schedule: "},
		{"once-per", "@every 1h", "is no schedule: @every"},
		{"once-per", "@reboot", "is no schedule: "},
		{"once-per", "TZ=UTC 0 3 * * *", "is no schedule: the time zone is named with CRON_TZ="},
		{"once-per", "CRON_TZ=UTC", "is no schedule: has no fields"},
		{"once-per", "CRON_TZ=Nowhere 0 3 * * *", "is no schedule: \"Nowhere\" is no time zone"},
		{"once-per", "0 3 31 2 *", "is no schedule: there is no such day"},
		{"tick", "yesterday", "is not a time"},
		{"tick", "2026-03-01 03:00:00", "is not a time"},
		{"tick", "2026-03-01T03:00:00", "is not a time"},
		{"tick", "@1772330400.5", "is not a time"},
		{"tick", "-1", "is not a time"},
		{"tick", "1772330400", "is before 2001"},
		{"tick", "1772330400123456789", "more than a day ahead"},
		{"tick", "@9223372036854775807", "more than a day ahead"},
		{"tries", "0", "not a number of tries"},
		{"tries", "1001", "not a number of tries"},
		{"rejoin", "maybe", "neither true nor false"},
		{"wait", "Forever", "not a duration"},
		{"profile", "slow", "is neither fast, normal nor unreliable"},
		{"skip-exit-code", "256", "not an exit status"},
		{"skip-exit-code", "+1", "not an exit status"},
		{"skip-exit-code", "0x1", "not an exit status"},
		{"on-renew-error", "ignore", "neither retry nor stop"},
		{"log-format", "xml", "neither text nor json"},
		{"verbose", "maybe", "neither true nor false"},
		{"command", "x", "no such setting"},
	}
	for _, tt := range tests {
		c := settings.Default()
		err := c.Set(tt.name, tt.value)
		var e *settings.Error
		if !errors.As(err, &e) {
			t.Errorf("Set(%q, %q) = %v", tt.name, tt.value, err)
			continue
		}
		if !strings.HasPrefix(err.Error(), "--"+tt.name) || !strings.Contains(err.Error(), tt.problem) {
			t.Errorf("Set(%q, %q) says %q, want --%s and %q", tt.name, tt.value, err, tt.name, tt.problem)
		}
		if e.Hint == "" || strings.HasSuffix(e.Hint, ".") || strings.ContainsAny(err.Error()+e.Hint, "\n\t") {
			t.Errorf("Set(%q, %q): hint %q", tt.name, tt.value, e.Hint)
		}
	}
}

// valid returns a valid Config with these settings changed.
func valid(t *testing.T, given ...string) settings.Config {
	t.Helper()
	c := settings.Default()
	c.Key, c.Command = "k", []string{"true"}
	for _, setting := range given {
		name, value, _ := strings.Cut(setting, "=")
		must.Succeed(t, c.Set(name, value))
	}
	return c
}

func TestValidateDerivesTimes(t *testing.T) {
	const s = time.Second
	tests := []struct {
		settings          []string
		ttl, renew, retry time.Duration
	}{
		{nil, 30 * s, 10 * s, 5 * s},
		{[]string{"profile=fast"}, 15 * s, 5 * s, 2500 * time.Millisecond},
		{[]string{"profile=normal"}, 30 * s, 10 * s, 5 * s},
		{[]string{"profile=unreliable"}, 90 * s, 30 * s, 15 * s},
		{[]string{"ttl=60s"}, 60 * s, 20 * s, 10 * s},
		{[]string{"ttl=60s", "profile=fast"}, 60 * s, 20 * s, 10 * s},
		{[]string{"profile=unreliable", "renew=5s"}, 90 * s, 5 * s, 15 * s},
		{[]string{"renew=1ms", "retry=1h"}, 30 * s, time.Millisecond, time.Hour},
		{[]string{"ttl=1s"}, s, s / 3, s / 6},
		{[]string{"ttl=87600h"}, 87600 * time.Hour, 29200 * time.Hour, 14600 * time.Hour},
	}
	for _, tt := range tests {
		c := valid(t, tt.settings...)
		if err := c.Validate(); err != nil {
			t.Errorf("%q: %v", tt.settings, err)
		}
		if c.TTL != tt.ttl || c.Renew != tt.renew || c.Retry != tt.retry {
			t.Errorf("%q: ttl %s, renew %s, retry %s; want %s, %s, %s", tt.settings, c.TTL, c.Renew, c.Retry, tt.ttl, tt.renew, tt.retry)
		}
	}
}

func TestValidateRules(t *testing.T) {
	tests := []struct {
		settings []string
		want     string // empty: allowed
	}{
		{[]string{"ttl=1s"}, ""},
		{[]string{"ttl=999ms"}, `--ttl "999ms": is shorter than 1s`},
		{[]string{"store=kubernetes:", "ttl=9999ms"}, `--ttl "9.999s": is too short for this store`},
		{[]string{"store=s3://leases", "ttl=9s"}, `--ttl "9s": is too short for this store`},
		{[]string{"store=s3://leases", "ttl=10s"}, ""},
		{[]string{"ttl=30s", "renew=10s"}, ""},
		{[]string{"ttl=10s", "renew=3333ms"}, ""},
		{[]string{"ttl=30s", "renew=10001ms"}, `--renew "10.001s": is more than a third of the TTL of 30s`},
		{[]string{"ttl=10s", "renew=3334ms"}, `--renew "3.334s": is more than a third of the TTL of 10s`},
		{[]string{"profile=fast", "renew=6s"}, `--renew "6s": is more than a third of the TTL of 15s`},
		{[]string{"verbose=true", "quiet=true"}, "--verbose and --quiet contradict each other"},
		{[]string{"verbose=true", "quiet=false"}, ""},
		{[]string{"once-per=2s", "wait=1999ms"}, ""},
		{[]string{"once-per=24h", "tries=5", "wait=1h"}, ""},
		{[]string{"once-per=1999ms"}, `--once-per "1.999s": is shorter than 2s`},
		{[]string{"once-per=1h", "min-hold=1s"}, `--once-per "1h": and --min-hold exclude each other`},
		{[]string{"once-per=1h", "min-hold=0"}, ""},
		{[]string{"once-per=1h", "rejoin=true"}, `--once-per "1h": and --rejoin exclude each other`},
		{[]string{"once-per=1h", "rejoin=false"}, ""},
		{[]string{"once-per=1h", "wait=1h"}, `--once-per "1h": is not longer than --wait 1h`},
		{[]string{"once-per=1h", "wait=forever"}, `--once-per "1h": is not longer than --wait forever`},
		{[]string{"once-per=0 3 * * *", "tries=5", "wait=23h"}, ""},
		{[]string{"once-per=0 3 * * *", "tick=@1772330400"}, ""},
		{[]string{"once-per=24h", "tick=@1772330400"}, ""},
		{[]string{"once-per=* * * * *", "wait=59s"}, ""},
		{[]string{"once-per=0 9,17 * * *", "wait=8h"}, `--once-per "0 9,17 * * *": has ticks that are no further apart than --wait 8h`},
		{[]string{"once-per=@yearly", "wait=forever"}, `--once-per "@yearly": has ticks that are no further apart than --wait forever`},
		{[]string{"once-per=@daily", "min-hold=1s"}, `--once-per "@daily": and --min-hold exclude each other`},
		{[]string{"once-per=@daily", "rejoin=true"}, `--once-per "@daily": and --rejoin exclude each other`},
		{[]string{"tick=@1772330400", "wait=forever", "tries=1"}, ""},
		{[]string{"tick=@1772330400", "rejoin=true"}, `--tick "`},
		{[]string{"tick=@1772330400", "min-hold=1s"}, `--tick "`},
		{[]string{"tries=3"}, `--tries "3": means nothing without --once-per or --tick`},
		{[]string{"min-hold=5s", "rejoin=true", "wait=forever"}, ""},
	}
	for _, tt := range tests {
		c := valid(t, tt.settings...)
		err := c.Validate()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
			t.Errorf("%q: %v, want %q", tt.settings, err, tt.want)
		}
	}

	noKey := valid(t)
	noKey.Key = ""
	if err := noKey.Validate(); err == nil || !strings.Contains(err.Error(), "--key") {
		t.Errorf("without a key: %v", err)
	}
	noCommand := valid(t)
	noCommand.Command = nil
	if err := noCommand.Validate(); err == nil || !strings.Contains(err.Error(), "command") {
		t.Errorf("without a command: %v", err)
	}
}

// The hint for a renew interval that is too long names an allowed one.
func TestRenewHintIsAllowed(t *testing.T) {
	for _, ttl := range []string{"1s", "1.001s", "10s", "29s", "1h", "87600h"} {
		c := valid(t, "ttl="+ttl, "renew=87600h")
		var e *settings.Error
		if !errors.As(c.Validate(), &e) {
			t.Fatalf("ttl %s: the interval was allowed", ttl)
		}
		renew, _, _ := strings.Cut(strings.TrimPrefix(e.Hint, "use --renew "), " ")
		again := valid(t, "ttl="+ttl, "renew="+renew)
		if err := again.Validate(); err != nil {
			t.Errorf("ttl %s: followed the hint %q: %v", ttl, e.Hint, err)
		}
	}
}

func TestErrorsShowNoPassword(t *testing.T) {
	const canary = "canary-7f3a"
	address := "redis://user:" + canary + "@host:6379/0"
	for _, name := range []string{"key", "prefix", "store", "ttl", "renew", "retry", "profile", "wait", "skip-exit-code", "signal",
		"kill-after", "lost-grace", "on-renew-error", "min-hold", "once-per", "tries", "rejoin", "verbose", "quiet", "log-format", "nonsense"} {
		c := settings.Default()
		if err := c.Set(name, address); err != nil && strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := settings.Default()
	if err := c.Set("store", "-"+canary); err == nil || strings.Contains(err.Error(), canary) {
		t.Errorf("store: %v", err)
	}
}

func TestRedact(t *testing.T) {
	tests := map[string]string{
		"a b":                         "a b",
		"redis://u:p@h":               "redis://…",
		strings.Repeat("ü", 61):       strings.Repeat("ü", 60) + "…",
		"x" + strings.Repeat("y", 59): "x" + strings.Repeat("y", 59),
	}
	for value, want := range tests {
		if got := settings.Redact(value); got != want {
			t.Errorf("Redact(%q) = %q, want %q", value, got, want)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	tests := map[time.Duration]string{
		30 * time.Second: "30s", 5 * time.Minute: "5m", 24 * time.Hour: "24h", 90 * time.Minute: "1h30m",
		90 * time.Second: "1m30s", 500 * time.Millisecond: "500ms", 0: "0s", 10 * time.Minute: "10m", 20 * time.Hour: "20h",
	}
	for d, want := range tests {
		if got := lease.FormatDuration(d); got != want {
			t.Errorf("lease.FormatDuration(%d) = %q, want %q", d, got, want)
		}
	}
}

// An accepted duration is in the allowed range, and parses back from what
// FormatDuration returns.
func FuzzDuration(f *testing.F) {
	for _, seed := range []string{"", "0", "30s", "-1s", "1h2m3.5s", "forever", "9223372036854775807ns", "87600h", "1e3s", "+5s", ".5s", "5µs"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		c := settings.Default()
		if c.Set("kill-after", value) != nil {
			return
		}
		if d := c.KillAfter; d < 0 || d > 87600*time.Hour || d%time.Millisecond != 0 {
			t.Errorf("%q was taken as %s", value, d)
		}
		again := settings.Default()
		if err := again.Set("kill-after", lease.FormatDuration(c.KillAfter)); err != nil || again.KillAfter != c.KillAfter {
			t.Errorf("%q is shown as %q, which reads as %s, %v", value, lease.FormatDuration(c.KillAfter), again.KillAfter, err)
		}
	})
}

// A key is accepted unchanged or not at all, and no accepted key looks like a flag.
func FuzzKey(f *testing.F) {
	for _, seed := range []string{"", "a", "a b", "--", "ünï", "a\x00b", strings.Repeat("k", 201), "cron:nightly/1"} {
		f.Add(seed)
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/-"
	f.Fuzz(func(t *testing.T, value string) {
		c := settings.Default()
		err := c.Set("key", value)
		ok := value != "" && len(value) <= 200 && strings.Trim(value, alphabet) == "" && value[0] != '-'
		if ok != (err == nil) {
			t.Errorf("key %q: %v", value, err)
		}
		if err == nil && c.Key != value {
			t.Errorf("key %q became %q", value, c.Key)
		}
	})
}
