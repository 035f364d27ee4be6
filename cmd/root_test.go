package cmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/settings/settingstest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// GOGC and GOMEMLIMIT are meant for the command.
func TestGarbageIsCollected(t *testing.T) {
	settingstest.NoSettings(t)
	t.Setenv("GOGC", "off")
	percent, limit := debug.SetGCPercent(-1), debug.SetMemoryLimit(1<<20)
	ran(t, "--version")
	if p, l := debug.SetGCPercent(percent), debug.SetMemoryLimit(limit); p != 100 || l != math.MaxInt64 {
		t.Errorf("GOGC is %d, the limit %d", p, l)
	}
}

func TestHelpGoesToStdout(t *testing.T) {
	settingstest.NoSettings(t)
	for _, args := range [][]string{{"--help", "--all"}, {"help", "--all"}, {"--key", "k", "-h", "--all"}} {
		if status, stdout, stderr := ran(t, args...); status != 0 || stdout != fullHelp() || stderr != "" {
			t.Errorf("%q: status %d, stdout %q, stderr %q", args, status, stdout, stderr)
		}
	}
	for _, args := range [][]string{{"--help"}, {"-h"}, {"help"}, {"--key", "k", "--help", "x"}} {
		if status, stdout, stderr := ran(t, args...); status != 0 || stdout != help() || stderr != "" {
			t.Errorf("%q: status %d, %d bytes on stdout, stderr %q", args, status, len(stdout), stderr)
		}
	}
}

func TestWithoutArguments(t *testing.T) {
	settingstest.NoSettings(t)
	if status, stdout, stderr := ran(t); status != 125 || stdout != "" || stderr != usage {
		t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
}

// A verb is recognised only as the first word: after a flag, its name is a command, and so
// is that of a verb that only cobra knows. So is a first word that is no verb.
func TestVerbsAreFirstWords(t *testing.T) {
	settingstest.NoSettings(t)
	t.Setenv("PATH", t.TempDir())
	for _, args := range [][]string{
		{"--key", "k", "version"}, {"--key", "k", "--", "help"}, {"--key=k", "version", "--help"}, {"--key=k", "completion"}, {"--key=k", "__complete"},
	} {
		if status, stdout, stderr := ran(t, args...); status != 127 || stdout != "" || !strings.Contains(stderr, "command not found") {
			t.Errorf("%q: status %d, stdout %q, stderr %q", args, status, stdout, stderr)
		}
	}
	t.Setenv("LEADERRUN_KEY", "k")
	if status, _, stderr := ran(t, "stats"); status != 127 || !strings.Contains(stderr, `command not found: "stats"`) {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
}

// Everything after COMMAND belongs to the command, even what looks like a flag.
func TestFlagParsingStopsAtTheCommand(t *testing.T) {
	settingstest.NoSettings(t)
	tests := []struct{ args, command []string }{
		{[]string{"--key", "k", "job", "--ttl", "nonsense", "-n"}, []string{"job", "--ttl", "nonsense", "-n"}},
		{[]string{"--key", "k", "--", "--job", "-v"}, []string{"--job", "-v"}},
		{[]string{"-nv", "--key=k", "job", "--", "a b", "", "*"}, []string{"job", "--", "a b", "", "*"}},
		{[]string{"-w5s", "-E75", "-sINT", "-k1s", "--key", "k", "job"}, []string{"job"}},
	}
	for _, tt := range tests {
		c, err := loaded(t, tt.args)
		if err != nil || strings.Join(c.Command, "\x00") != strings.Join(tt.command, "\x00") {
			t.Errorf("%q: command %q, %v", tt.args, c.Command, err)
		}
	}
}

func TestBadInput(t *testing.T) {
	tests := []struct {
		env  string // "NAME=value NAME=value"
		file string // the user's file of settings
		args string // JOB stands for a command that leaves a trace
		want string
	}{
		// what is missing
		{args: "--key k -w", want: "--wait: needs a value"},
		{env: "LEADERRUN_KEY=k", args: "-n", want: "no command"},
		{file: "store: redis://h", args: "JOB", want: "--key is missing"},
		// keys
		{file: "key: ''", args: "JOB", want: "key: is empty"},
		{file: "key:", args: "JOB", want: "key: has no value"},
		{args: "--key --ttl 30s JOB", want: `--key "--ttl": begins like a flag`},
		// durations
		{args: "--key k --ttl 7d JOB", want: "is not a duration\n  write it like 500ms, 30s, 5m or 24h; a week is 168h"},
		{args: "--key k -n -w 5s JOB", want: "contradict"},
		{file: "ttl: 500ms", args: "--key k JOB", want: `leaderrun.yaml: ttl "500ms": is shorter`},
		// the rest of the flags
		{args: "--key k --verbose=loud JOB", want: "--verbose: is a switch"},
		{env: "LEADERRUN_SKIP_EXIT_CODE=skip", args: "--key k JOB", want: `LEADERRUN_SKIP_EXIT_CODE "skip"`},
		{env: "TZ=MSK-3", file: "once-per: 0 3 * * *", args: "--key k JOB", want: `/leaderrun.yaml: once-per "0 3 * * *": TZ is "MSK-3", and leaderrun knows only names such as Europe/Moscow` + "\n  set TZ to a name, or write CRON_TZ=NAME in the schedule"},
		// what does not exist
		{args: "--kye k JOB", want: "unknown flag --kye\n  did you mean --key?"},
		{args: "--store file:/d status", want: "--key is missing\n  did you mean leaderrun status --store file:/d?"},
		{args: "stauts", want: "--key is missing\n  did you mean leaderrun status?"},
		{args: "handover --key k", want: "--key is missing\n  \"handover\" is no verb, so it is the command: leaderrun's flags come before it"},
		{args: "manage.sh --x", want: "--key is missing\n  name the lease, the same on every host: leaderrun --key NAME -- COMMAND"},
		{args: "JOB --ttl 3s --key=k", want: "--key is missing\n"},
		{args: "--key k --max-hold 1h JOB", want: "unknown flag --max-hold"},
		{args: "--key k -nx JOB", want: "unknown flag -x"},
		{args: "--once 24h --key k JOB", want: "unknown flag --once\n  did you mean --once-per?"},
		{args: "-key k JOB", want: `--kill-after "ey": is not a duration` + "\n  did you mean --key? long flags have two dashes"},
		{args: "-store=redis://:s3cret@h JOB", want: "\n  did you mean --store?"},
		{args: "-renew=3s JOB", want: "unknown flag -r\n  did you mean --renew?"},
		{args: "--key k -verbose JOB", want: "unknown flag -e\n  did you mean --verbose?"},
		{args: "--key k ---n JOB", want: "a flag has a bad form"},
		{args: "version 1", want: "version takes no arguments"},
		{args: "help key", want: "no such verb"},
		{env: "LEADERRUN_TLL=1s", args: "--key k JOB", want: "LEADERRUN_TLL is set, but is no setting\n  did you mean LEADERRUN_TTL?"},
		{env: "LEADERRUN_STORE_URL=x", args: "--key k JOB", want: "no setting\n  did you mean LEADERRUN_STORE?"},
		{env: "LEADERRUN_URL=x", args: "--key k JOB", want: "LEADERRUN_URL is set, but is no setting\n  unset it"},
		{file: "tll: 1s", args: "--key k JOB", want: "tll: no such setting\n  did you mean ttl?"},
		{file: "skip_exit_code: 3", args: "--key k JOB", want: "did you mean skip-exit-code?"},
		// files
		{args: "--key k --config /nonexistent.yaml JOB", want: "cannot be read: no such file or directory\n  name a file of settings that exists and that this user may read"},
		{args: "--key k --config= JOB", want: "--config: cannot be read"},
		{env: "LEADERRUN_CONFIG=/nonexistent.yaml", args: "--key k JOB", want: "LEADERRUN_CONFIG"},
		{file: "a: b: c", args: "--key k JOB", want: "is not valid YAML"},
		{file: "'a'\nb", args: "--key k JOB", want: "is not valid YAML (near line 1)"},
		{file: "# Gr\xfc\xdfe\nttl: 5s", args: "--key k JOB", want: "is not UTF-8 text\n  write it in UTF-8"},
		{file: "- key", args: "--key k JOB", want: "holds no settings"},
		{file: "prefix: &key a\n*key : b", args: "JOB", want: "has a name that is not text (line 2)"},
		{file: "[key]: k", args: "JOB", want: "has a name that is not text (line 1)"},
		// places
		{env: "KUBERNETES_SERVICE_HOST=10.0.0.1", args: "--key k JOB", want: "no store named, and in Kubernetes"},
		{env: "LEADERRUN_HOLDER=h/1/x LEADERRUN_KEY=other", args: "--key k JOB", want: "no store named, and inside another leaderrun"},
		{env: "LEADERRUN_HOLDER=h/1/x LEADERRUN_KEY=k LEADERRUN_STORE=redis://h", args: "--wait forever JOB", want: `LEADERRUN_KEY "k": this command already runs under leaderrun`},
		{env: "LEADERRUN_HOLDER=h/1/x LEADERRUN_KEY=k LEADERRUN_STORE=redis://h", args: "--key k JOB", want: `--key "k": this command already runs under leaderrun`},
		// Redis variables
		{env: "REDIS_HOST=h:6379", args: "--key k JOB", want: "REDIS_HOST is not a host name"},
		{env: "REDIS_HOST=h REDIS_PORT=http", args: "--key k JOB", want: `REDIS_PORT "http": is not a number from 1 to 65535`},
		{env: "REDIS_HOST=h REDIS_SENTINEL_HOST=s", args: "--key k JOB", want: "REDIS_SENTINEL_NAME is missing from the variables REDIS_*"},
		{env: "MUTEX_REDIS_SENTINEL_HOST=s REDIS_URL=redis://h", args: "--key k JOB", want: "MUTEX_REDIS_SENTINEL_NAME is missing from the variables MUTEX_REDIS_*"},
		{env: "MUTEX_REDIS_HOST=", args: "--key k JOB", want: "MUTEX_REDIS_HOST is set, but empty"},
		{env: "REDIS_URL=redis://:file:%2Fnonexistent@h", args: "--key k JOB", want: `REDIS_URL: redis store: the password file "/nonexistent" cannot be read`},
		{env: "REDIS_HOST=h REDIS_PASSWORD=file:/dev/null", args: "--key k JOB", want: `REDIS_HOST: redis store: the password file "/dev/null" is empty`},
	}
	for _, tt := range tests {
		t.Run(strings.TrimSpace(tt.env+" "+tt.file+" "+tt.args), func(t *testing.T) {
			dir := settingstest.NoSettings(t)
			settingstest.SetVariables(t, strings.Fields(tt.env)...)
			if tt.file != "" {
				must.Succeed(t, os.MkdirAll(filepath.Join(dir, "leaderrun"), 0o700))
				must.Succeed(t, os.WriteFile(filepath.Join(dir, "leaderrun", "leaderrun.yaml"), []byte(tt.file), 0o600))
			}
			trace := filepath.Join(t.TempDir(), "ran")
			args := strings.Fields(strings.ReplaceAll(tt.args, "JOB", "touch "+trace))
			status, stdout, stderr := ran(t, args...)
			if status != 125 || stdout != "" {
				t.Errorf("status %d, stdout %q", status, stdout)
			}
			if !strings.Contains(stderr, tt.want) {
				t.Errorf("stderr %q, want %q", stderr, tt.want)
			}
			checkForm(t, stderr)
			if _, err := os.Stat(trace); err == nil {
				t.Error("the command ran")
			}
		})
	}
}

// checkForm checks that an error has the usual form: one line and a hint.
func checkForm(t *testing.T, stderr string) {
	t.Helper()
	lines := strings.Split(stderr, "\n")
	if len(lines) != 3 || lines[2] != "" {
		t.Fatalf("not two lines: %q", stderr)
	}
	if !strings.HasPrefix(lines[0], "leaderrun: ") || !strings.HasPrefix(lines[1], "  ") || len(strings.TrimSpace(lines[1])) < 8 {
		t.Errorf("not a message and a hint: %q", stderr)
	}
	if strings.HasSuffix(lines[0], ".") || strings.HasSuffix(lines[1], ".") {
		t.Errorf("full stop: %q", stderr)
	}
}

// No error shows a password, wherever the address was given.
func TestNoErrorShowsAPassword(t *testing.T) {
	const canary = "canary-7f3a"
	const address = "redis://user:" + canary + "@127.0.0.1:1/0"
	tests := []struct{ env, file, args string }{
		{args: "--key " + address + " true"},
		{args: "--key k --prefix " + address + " true"},
		{args: "--key k --ttl " + address + " true"},
		{args: "--key k -s " + address + " true"},
		{args: "--key k --verbose=" + address + " true"},
		{args: "--key k --config " + address + " true"},
		{args: "--key k --sotre=" + address + " true"},
		{args: "--key k --" + address + " true"},
		{args: "--key k --=" + address + " true"},
		{args: "--key k " + address},
		{args: "help " + address},
		{args: "--key k -- " + address + " true"},
		{args: "--key k --store " + address + "?bogus=1 true"},
		{args: "--key k --store redis://user:" + canary + "@127.0.0.1:notaport true"},
		{args: "--key k --store redis://user:" + canary + "@[::1 true"},
		{args: "--key k --store redis://user:" + canary + "%zz@127.0.0.1 true"},
		{args: "--key k --store redis://user:" + canary + "@127.0.0.1/db true"},
		{args: "--key k --store nonsense://user:" + canary + "@127.0.0.1 true"},
		{args: "--key k --store user:" + canary + "@127.0.0.1 true"},
		{args: "--key k --ttl 1s --store " + address + " true"},
		{env: "LEADERRUN_STORE=" + address, args: "--key k --ttl 1s true"},
		{env: "LEADERRUN_STRE=" + address, args: "--key k true"},
		{env: "LEADERRUN_TTL=" + address, args: "--key k true"},
		{env: "REDIS_HOST=" + address, args: "--key k true"},
		{env: "REDIS_HOST=user:" + canary + "@h", args: "--key k true"},
		{env: "REDIS_HOST=127.0.0.1 REDIS_PORT=1 REDIS_PASSWORD=" + canary, args: "--key k --ttl 1s true"},
		{env: "REDIS_HOST=127.0.0.1 REDIS_PORT=0 REDIS_PASSWORD=" + canary, args: "--key k true"},
		{env: "MUTEX_REDIS_PASSWORD=" + canary, args: "--key k true"},
		{env: "REDIS_URL=redis://:" + canary + "@h:x", args: "--key k true"},
		{file: "store: " + address + "\nttl: 5", args: "--key k true"},
		{file: "store " + address, args: "--key k true"},
		{file: canary, args: "--key k true"},
		{file: "store: *" + canary, args: "--key k true"},
		{file: "store: !!int " + canary, args: "--key k true"},
		{file: "store: {" + canary, args: "--key k true"},
		{file: "store: [" + address + "]", args: "--key k true"},
		{file: address + ": store", args: "--key k true"},
	}
	for i, tt := range tests {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			settingstest.NoSettings(t)
			settingstest.SetVariables(t, strings.Fields(tt.env)...)
			args := strings.Fields(tt.args)
			if tt.file != "" {
				args = append([]string{"--config", settingstest.WriteFile(t, tt.file)}, args...)
			}
			status, stdout, stderr := ran(t, args...)
			if strings.Contains(stdout+stderr, canary) {
				t.Errorf("%+v: stderr %q", tt, stderr)
			}
			if status == 0 || stderr == "" {
				t.Errorf("status %d, stderr %q: no error, nothing tested", status, stderr)
			}
		})
	}
}

func TestErrorsInJSON(t *testing.T) {
	settingstest.NoSettings(t)
	for _, args := range [][]string{
		{"--log-format", "json", "--key", "k", "--ttl", "5", "true"},
		{"--log-format", "json", "--key", "k", "--config", "/nonexistent", "true"},
		{"--log-format", "json", "--key", "k", "nonexistent-command"},
	} {
		_, _, stderr := ran(t, args...)
		var record struct{ Level, Msg, Hint string }
		if err := json.Unmarshal([]byte(stderr), &record); err != nil {
			t.Fatalf("%v: %q", err, stderr)
		}
		if record.Level != "ERROR" || record.Msg == "" || record.Hint == "" {
			t.Errorf("%q", stderr)
		}
	}
}

func TestQuietKeepsErrors(t *testing.T) {
	settingstest.NoSettings(t)
	if status, _, stderr := ran(t, "-q", "--key", "k", "--ttl", "1s", "nonexistent-command"); status != 127 || !strings.HasPrefix(stderr, "leaderrun: ") {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
}

// What a server sends before it is asked is not on stderr: net/http logs it.
func TestServerSpeaksUnasked(t *testing.T) {
	settingstest.NoSettings(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := c.Read(make([]byte, 1<<10)); err == nil {
					fmt.Fprint(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
					time.Sleep(50 * time.Millisecond) // so that it is not read with the answer
					fmt.Fprint(c, "unasked")
				}
			}()
		}
	}()
	var logged bytes.Buffer
	log.SetOutput(&logged)
	// The next attempt comes after 0.1 s.
	status, _, said := ran(t, "--store=etcd://"+listener.Addr().String(), "--key=k", "--ttl=6s", "true")
	if status != exitUnavailable || logged.Len() > 0 || !strings.Contains(said, " k: nothing ran: ") {
		t.Errorf("status %d, logged %q, said %q", status, logged.String(), said)
	}
}
