package settings

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/settings/settingstest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// values has three different values of each setting that does not take any text.
var values = map[string][3]string{
	"store":          {"redis://flag", "redis://variable", "redis://file"},
	"ttl":            {"31s", "32s", "33s"},
	"renew":          {"1s", "2s", "3s"},
	"retry":          {"1s", "2s", "3s"},
	"profile":        {"fast", "unreliable", "normal"},
	"wait":           {"forever", "2s", "3s"},
	"skip-exit-code": {"1", "2", "0"},
	"signal":         {"INT", "2", "15"},
	"kill-after":     {"1s", "0", "3s"},
	"lost-grace":     {"0", "2s", "3s"},
	"on-renew-error": {"stop", "retry", "stop"},
	"leftovers":      {"wait", "leave", "stop"},
	"max-runtime":    {"1s", "2m", "3h"},
	"rejoin":         {"true", "false", "true"},
	"min-hold":       {"1s", "2m", "0"},
	"slots":          {"2", "3", "4"},
	"once-per":       {"@daily", "1h", "0 3 * * *"},
	"tick":           {"@1772330400", "1772330400000000", "2026-03-01T02:00:00.5Z"},
	"tries":          {"1", "2", "3"},
	"metrics-listen": {":1", "h:2", "0.0.0.0:3"},
	"ping":           {"http://flag/a", "https://variable/a", "http://file:1"},
	"verbose":        {"true", "false", "true"},
	"quiet":          {"true", "false", "true"},
	"log-format":     {"json", "text", "json"},
}

// Every setting can be given in every place, in every combination. A flag wins over a
// variable, that over the file, that over a set of Redis variables, that over the
// default. origin names the place where viper found the value.
func TestPrecedence(t *testing.T) {
	inSet := map[string]string{"store": "redis://set:6379/0", "prefix": "set"}
	for _, name := range Names() {
		value, ok := values[name]
		if name == fileSetting {
			continue
		}
		if !ok {
			value = [3]string{"flag", "variable", "file"}
		}
		for places := range 16 {
			settingstest.NoSettings(t)
			var args []string
			file, want, origin := "", "", nowhere
			if places&8 != 0 {
				settingstest.SetVariables(t, "REDIS_HOST=set", "REDIS_PREFIX=set")
				if want = inSet[name]; want != "" {
					origin = inFound
				}
			}
			if places&4 != 0 {
				file, want, origin = name+": "+value[2]+"\n", value[2], inFile
			}
			if places&2 != 0 {
				settingstest.SetVariables(t, variableOf(name)+"="+value[1])
				want, origin = value[1], inEnvironment
			}
			if places&1 != 0 {
				args, want, origin = append(args, "--"+name+"="+value[0]), value[0], onCommandLine
			}
			flags := NewFlags()
			must.Succeed(t, flags.Parse(args))
			c, s, err := Read(flags, []string{settingstest.WriteFile(t, file)})
			if err != nil {
				t.Errorf("%s in %04b: %v", name, places, err)
				continue
			}
			if name == "prefix" && places&8 != 0 && c.StoreSource != "REDIS_HOST" {
				t.Errorf("the set is not used: store from %q", c.StoreSource)
			}
			if got := s.get(name); got.place != origin || got.value != want {
				t.Errorf("%s in %04b: %+v, want %q from %d", name, places, got, want, origin)
			}
			expected := Default()
			if places&8 != 0 && name != "store" {
				expected.Store = inSet["store"]
			}
			if places&8 != 0 && name != "prefix" && strings.HasPrefix(c.StoreSource, "REDIS_") {
				expected.Prefix = inSet["prefix"]
			}
			if want != "" {
				must.Succeed(t, expected.Set(name, want))
			}
			expected.StoreSource, expected.Told = c.StoreSource, c.Told
			if !reflect.DeepEqual(c, expected) {
				t.Errorf("%s given in places %04b:\n got %+v\nwant %+v", name, places, c, expected)
			}
			for _, variable := range []string{variableOf(name), "REDIS_HOST", "REDIS_PREFIX"} {
				must.Succeed(t, os.Unsetenv(variable))
			}
		}
	}
}

// Of two settings that contradict each other, the one from the place with precedence wins.
func TestPrecedenceOfContradictions(t *testing.T) {
	tests := []struct {
		args, env, file string
		ttl             time.Duration
		verbose         int
		quiet           bool
	}{
		{"--profile fast", "", "ttl: 60s", 15 * time.Second, 0, false},
		{"--profile fast", "", "ttl: 60s\nrenew: 20s", 15 * time.Second, 0, false},
		{"--profile fast", "LEADERRUN_TTL=60s", "", 15 * time.Second, 0, false},
		{"", "LEADERRUN_PROFILE=fast", "ttl: 60s", 15 * time.Second, 0, false},
		{"--profile fast --ttl 20s", "", "ttl: 60s", 20 * time.Second, 0, false},
		{"", "LEADERRUN_TTL=20s", "profile: fast", 20 * time.Second, 0, false},
		{"", "", "profile: fast\nttl: 20s", 20 * time.Second, 0, false},
		{"-v", "", "quiet: true", 30 * time.Second, 1, false},
		{"-vv", "", "quiet: true", 30 * time.Second, 2, false},
		{"-vvv", "", "", 30 * time.Second, 2, false},
		{"-v --verbose", "", "", 30 * time.Second, 2, false},
		{"", "LEADERRUN_VERBOSE=2", "", 30 * time.Second, 2, false},
		{"", "", "verbose: 2", 30 * time.Second, 2, false},
		{"-q", "LEADERRUN_VERBOSE=1", "", 30 * time.Second, 0, true},
		{"", "LEADERRUN_QUIET=1", "verbose: true", 30 * time.Second, 0, true},
		{"--verbose=false", "", "quiet: true", 30 * time.Second, 0, true},
	}
	for _, tt := range tests {
		t.Run("", func(t *testing.T) {
			settingstest.NoSettings(t)
			settingstest.SetVariables(t, strings.Fields(tt.env)...)
			c, err := loaded(t, append([]string{"--key=k"}, append(strings.Fields(tt.args), "job")...), settingstest.WriteFile(t, tt.file))
			if err != nil || c.TTL != tt.ttl || c.Verbose != tt.verbose || c.Quiet != tt.quiet {
				t.Errorf("%q %q %q: TTL %s, verbose %d, quiet %t, %v", tt.args, tt.env, tt.file, c.TTL, c.Verbose, c.Quiet, err)
			}
		})
	}
}

func TestStorePrecedence(t *testing.T) {
	tests := []struct {
		args, env, file       string
		store, prefix, source string
	}{
		{"--store redis://flag", "LEADERRUN_STORE=redis://variable REDIS_HOST=set", "store: redis://file", "redis://flag", "leaderrun", "--store"},
		{"", "LEADERRUN_STORE=redis://variable REDIS_HOST=set", "store: redis://file", "redis://variable", "leaderrun", "LEADERRUN_STORE"},
		{"", "REDIS_HOST=set REDIS_PREFIX=set", "store: redis://file", "redis://file", "leaderrun", "FILE: store"},
		{"", "REDIS_HOST=set REDIS_PREFIX=set", "ttl: 9s", "redis://set:6379/0", "set", "REDIS_HOST"},
		{"", "REDIS_HOST=set REDIS_PREFIX=set", "prefix: file", "redis://set:6379/0", "file", "REDIS_HOST"},
		{"", "REDIS_HOST=set REDIS_PREFIX=set LEADERRUN_PREFIX=variable", "prefix: file", "redis://set:6379/0", "variable", "REDIS_HOST"},
		{"--prefix flag", "REDIS_HOST=set REDIS_PREFIX=set LEADERRUN_PREFIX=variable", "", "redis://set:6379/0", "flag", "REDIS_HOST"},
		{"", "", "", "redis://127.0.0.1:6379/0", "leaderrun", ""},
	}
	for _, tt := range tests {
		t.Run("", func(t *testing.T) {
			settingstest.NoSettings(t)
			settingstest.SetVariables(t, strings.Fields(tt.env)...)
			file := settingstest.WriteFile(t, tt.file)
			c, err := loaded(t, append(strings.Fields(tt.args), "--key", "k", "job"), file)
			source := strings.ReplaceAll(tt.source, "FILE", file)
			if err != nil || c.Store != tt.store || c.Prefix != tt.prefix || c.StoreSource != source {
				t.Errorf("%+v:\nstore %q, prefix %q from %q, %v", tt, c.Store, c.Prefix, c.StoreSource, err)
			}
		})
	}
}

func TestFileIsTheFirstThatExists(t *testing.T) {
	settingstest.NoSettings(t)
	first, second := settingstest.WriteFile(t, "key: first"), settingstest.WriteFile(t, "key: second\nttl: 9s")
	absent := filepath.Join(t.TempDir(), "absent.yaml")
	tests := []struct {
		args  []string
		files []string
		key   string
	}{
		{nil, []string{first, second}, "first"},
		{nil, []string{absent, second}, "second"},
		{[]string{"--config", second}, []string{first}, "second"},
	}
	for _, tt := range tests {
		c, err := loaded(t, append(tt.args, "job"), tt.files...)
		if err != nil || c.Key != tt.key {
			t.Errorf("%q, %q: key %q, %v", tt.args, tt.files, c.Key, err)
		}
	}
	if c, err := loaded(t, []string{"job"}, first, second); err != nil || c.TTL.String() != "30s" {
		t.Errorf("files were mixed: ttl %s, %v", c.TTL, err)
	}

	t.Setenv("LEADERRUN_CONFIG", second)
	if c, err := loaded(t, []string{"job"}, first); err != nil || c.Key != "second" {
		t.Errorf("LEADERRUN_CONFIG: key %q, %v", c.Key, err)
	}
	if c, err := loaded(t, []string{"--config", first, "job"}, second); err != nil || c.Key != "first" {
		t.Errorf("--config over LEADERRUN_CONFIG: key %q, %v", c.Key, err)
	}
}

// YAML would read these as 83, a boolean, a time and null.
func TestFileIsTakenAsWritten(t *testing.T) {
	tests := []struct{ text, key string }{
		{"key: 0123", "0123"},
		{"key: true", "true"},
		{"key: 2026-11-21", "2026-11-21"},
		{"key: 1e3", "1e3"},
		{`"key": "quoted"`, "quoted"},
		{"{key: flow, ttl: 5s}", "flow"},
		{"%YAML 1.1\n---\nkey: directive\n...\n", "directive"},
		{"\ufeffkey: mark", "mark"},
		{"key: end # of the line\r\nttl: 5s\r\n", "end"},
	}
	for _, tt := range tests {
		settingstest.NoSettings(t)
		if c, err := loaded(t, []string{"job"}, settingstest.WriteFile(t, tt.text)); err != nil || c.Key != tt.key {
			t.Errorf("%q: key %q, %v", tt.text, c.Key, err)
		}
	}
	for _, text := range []string{"", "\n", "# nothing\n", "---\n", "--- # nothing\n...\n", "~\n"} {
		settingstest.NoSettings(t)
		if _, err := loaded(t, []string{"--key=k", "job"}, settingstest.WriteFile(t, text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Viper's own decoder would accept all of these.
func TestFileIsStrict(t *testing.T) {
	for text, want := range map[string]string{
		"ttl: 1s\nTTL: 2s":         "TTL: no such setting",
		`ttl: ""`:                  "ttl: is empty",
		"ttl.renew: 1s":            "ttl.renew: no such setting",
		"a: &x 1s\nttl: *x":        "a: no such setting",
		"rejoin: yes":              "is neither true nor false",
		"prefix: a\n<<: {ttl: 1s}": "<<: no such setting",
	} {
		settingstest.NoSettings(t)
		if _, err := loaded(t, []string{"--key=k", "job"}, settingstest.WriteFile(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for _, key := range []string{"UPPER.lower", "0123", "0x1f", "1_000", "on", "null-ish", "2026-11-21"} {
		settingstest.NoSettings(t)
		if c, err := loaded(t, []string{"job"}, settingstest.WriteFile(t, "key: "+key)); err != nil || c.Key != key {
			t.Errorf("key %q became %q, %v", key, c.Key, err)
		}
	}
	settingstest.NoSettings(t)
	t.Setenv("LEADERRUN_TTL", "")
	if _, err := loaded(t, []string{"--key=k", "job"}, settingstest.WriteFile(t, "ttl: 5s")); err == nil || err.Error() != "LEADERRUN_TTL: is empty" {
		t.Errorf("an empty variable: %v", err)
	}
}

// A default file that exists but cannot be read is an error: its settings would be
// missing.
func TestUnreadableDefaultFile(t *testing.T) {
	settingstest.NoSettings(t)
	dir := t.TempDir()
	link := filepath.Join(dir, "link.yaml")
	must.Succeed(t, os.Symlink(filepath.Join(dir, "nowhere"), link))
	for _, file := range []string{dir, link} {
		_, err := loaded(t, []string{"--key", "k", "job"}, file, settingstest.WriteFile(t, "ttl: 9s"))
		if err == nil || !strings.Contains(err.Error(), file+": cannot be read") {
			t.Errorf("%v", err)
		}
	}
}

// A home that is not a directory, as for many system users, has no settings file.
func TestHomeIsNoDirectory(t *testing.T) {
	settingstest.NoSettings(t)
	t.Setenv("HOME", "/dev/null")
	t.Setenv("XDG_CONFIG_HOME", "")
	if _, err := loaded(t, []string{"--key", "k", "job"}, Files()[1]); err != nil {
		t.Error(err)
	}
}

func TestFiles(t *testing.T) {
	dir := settingstest.NoSettings(t)
	want := []string{"/etc/leaderrun/leaderrun.yaml", filepath.Join(dir, "leaderrun", "leaderrun.yaml")}
	if got := Files(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	t.Setenv("HOME", "")
	t.Setenv("XDG_CONFIG_HOME", "")
	if got := Files(); !slices.Equal(got, want[:1]) {
		t.Errorf("without a home: %q", got)
	}
}

func TestWaitZero(t *testing.T) {
	settingstest.NoSettings(t)
	t.Setenv("LEADERRUN_WAIT", "5m")
	if c, err := loaded(t, []string{"-n", "--key", "k", "job"}); err != nil || c.Wait != 0 {
		t.Errorf("-n over LEADERRUN_WAIT: %s, %v", c.Wait, err)
	}
	if c, err := loaded(t, []string{"-n", "-w", "0s", "--key", "k", "job"}); err != nil || c.Wait != 0 {
		t.Errorf("-n with --wait 0s: %s, %v", c.Wait, err)
	}
}

func TestVariablesThatAreNoSettings(t *testing.T) {
	settingstest.NoSettings(t)
	settingstest.SetVariables(t, "LEADERRUN_HOLDER=h/1/x", "LEADERRUN_TOKEN=7", "LEADERRUN_LEASE_FILE=/run/x", "LEADERRUN_KEY=outer", "LEADERRUN_STORE=redis://h",
		"LEADERRUN_SERVICE_HOST=10.0.0.1", "LEADERRUN_SERVICE_PORT=80", "LEADERRUN_SERVICE_PORT_HTTP=80", "LEADERRUN_PORT=tcp://10.0.0.1:80",
		"LEADERRUN_PORT_80_TCP=tcp://10.0.0.1:80", "LEADERRUN_PORT_80_TCP_PROTO=tcp", "LEADERRUN_PORT_53_UDP_ADDR=10.0.0.1",
		"LEADERRUN_METRICS_PORT_9090_SCTP_PORT=9090", "LEADERRUN_METRICS_SERVICE_HOST=10.0.0.2")
	if c, err := loaded(t, []string{"--key", "inner", "job"}); err != nil || c.Key != "inner" {
		t.Errorf("key %q, %v", c.Key, err)
	}
}

func TestEveryUnknownVariableIsAnError(t *testing.T) {
	for _, name := range []string{"LEADERRUN_", "LEADERRUN_HELP", "LEADERRUN_N", "LEADERRUN_COMMAND", "LEADERRUN_STORE_URL", "LEADERRUN_PORT_HTTP_TCP",
		"LEADERRUN_PORT_80", "LEADERRUN_PORT_80_QUIC", "LEADERRUN_key"} {
		t.Run(name, func(t *testing.T) {
			settingstest.NoSettings(t)
			t.Setenv(name, "x")
			if _, err := loaded(t, []string{"--key", "k", "job"}); err == nil || !strings.Contains(err.Error(), name+" is set") {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestSuggest(t *testing.T) {
	names := []string{"key", "ttl", "renew", "retry", "on-renew-error"}
	tests := map[string]string{"kye": "key", "keys": "key", "tlt": "ttl", "renwe": "renew", "retries": "", "onrenewerror": "on-renew-error", "x": "", "": "", "abc": "",
		"on-renew": "on-renew-error", "key-name": "key", "ren": "renew", "re": "", "retry-it": "retry"}
	names = append(names, "metrics-listen", "metrics-textfile")
	tests["metrics"] = "" // both
	for word, want := range tests {
		if got := Suggest(word, names); got != want {
			t.Errorf("Suggest(%q) = %q, want %q", word, got, want)
		}
	}
	long := strings.Repeat("x", 1<<16)
	if n := testing.AllocsPerRun(1, func() { Suggest(long, names) }); n > 0 {
		t.Errorf("%.0f allocations for a word that is like no name", n)
	}
}
