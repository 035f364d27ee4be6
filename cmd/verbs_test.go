package cmd

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/settings"
	"github.com/leaderrun/leaderrun/internal/settings/settingstest"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

func TestStoreFailsAVerb(t *testing.T) {
	failed := &lease.StoreError{Op: "status", Err: errors.New("connection refused"), Hint: "start it"}
	s := &fakeStore{failed: failed}
	for name, ask := range map[string]func() error{
		"status":  func() error { return errOf(keyText(t.Context(), s, "k", asTable)) },
		"list":    func() error { return errOf(listText(t.Context(), s, asTable)) },
		"history": func() error { return showHistory(t.Context(), s, "k", asTable) },
		"release": func() error { return handOver(t.Context(), s, "k") },
		"force":   func() error { return revoke(t.Context(), s, "k", false) },
		"pause":   func() error { return pause(t.Context(), s, "k", pauseFlags{duration: "1h"}) },
		"resume":  func() error { return resume(t.Context(), s, "k") },
		"forget":  func() error { return forget(t.Context(), s, "k", true, settings.Told{}) },
	} {
		if text, err := answer(t, ask); !errors.Is(err, failed) || text != "" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

// Repeating a change whose answer was lost may hit the next leader.
func TestHintAboutALostAnswer(t *testing.T) {
	const look = "look at leaderrun status before you repeat it"
	for name, c := range map[string]struct {
		err  lease.StoreError
		want string
	}{
		"lost":     {lease.StoreError{Op: "revoke", Hint: "check the network"}, "check the network; it may have been done all the same: " + look},
		"no hint":  {lease.StoreError{Op: "hand over"}, "it may have been done all the same: " + look},
		"refused":  {lease.StoreError{Op: "revoke", Refused: true, Hint: "start it"}, "start it"},
		"no right": {lease.StoreError{Op: "pause", Permanent: true, Hint: "grant it"}, "grant it"},
		"a look":   {lease.StoreError{Op: "status", Hint: "check the network"}, "check the network"},
	} {
		if got := hintOf(&c.err); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
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
		if first, _, _ := strings.Cut(stdout, "\n\n"); !strings.HasSuffix(first, ".") {
			t.Errorf("%s --help begins with no sentence: %q", name, first)
		}
		if strings.Contains(stdout, `(default "`) {
			t.Errorf("%s --help has a default in quotes: %s", name, stdout)
		}
		for line := range strings.Lines(stdout) {
			if len(line) > 125 {
				t.Errorf("%s --help: %d columns: %s", name, len(line), line)
			}
		}
		if !regexp.MustCompile(`[ |]` + name + `\b`).MatchString(usage) {
			t.Errorf("the usage lacks %s", name)
		}
	}
}

// An answer that cannot be written is an error.
func TestAnswerThatCannotBeWritten(t *testing.T) {
	settingstest.NoSettings(t)
	asked := []string{
		"help", "help status", "--help", "--key k -h", "version", "config", "config -o json", "explain",
		"man", "man status", "completion bash", "completion zsh", "completion fish", "__complete stat",
	}
	for name := range verbs() {
		asked = append(asked, name+" --help")
	}
	unwritable, err := os.Open(os.DevNull) // read-only
	must.Succeed(t, err)
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
		"status k":                 "status takes no arguments\n  did you mean --key k?",
		"status redis://:s3cret@h": "status takes no arguments\n  to run a command of that name: leaderrun --key NAME -- status ARG\n",
		"check k":                  "check takes no arguments\n  to run",
		"help statsu":              "no such verb\n  did you mean leaderrun help status?",
		"status -o yaml":           "is no format of this verb",
		"status --ttl 3s":          "status does not take --ttl, a flag of runs\n  leave it out; leaderrun status --help lists its flags",
		"pause --key k --for 1h --reason " + strings.Repeat("x", 201): "201 characters are too long",
		"pause --key k --for 1h --reason \x1b":                        "is not allowed",
		"forget":                                                      "no key",
	} {
		status, stdout, stderr := ran(t, strings.Fields(args)...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") > 2 {
			t.Errorf("%s: status %d, stdout %q, stderr %q", args, status, stdout, stderr)
		}
	}
}

func errOf(_ string, err error) error { return err }
