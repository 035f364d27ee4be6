package run

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/settings"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// leaderrun does not wait for a disk that hangs. (The kernel may: see outcomeLimit.)
func TestOutcomeFileOnADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		defer close(hangs)
		began := time.Now()
		err := within(outcomeLimit, func() error { <-hangs; return nil })
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "disk") || took != 10*time.Second {
			t.Errorf("after %s: %v", took, err)
		}
	})
}

func result(outcome elect.Outcome, with ...func(*campaign.Result)) campaign.Result {
	r := campaign.Result{State: elect.State{Outcome: outcome}}
	for _, f := range with {
		f(&r)
	}
	return r
}

func exited(code, signal int) func(*campaign.Result) {
	return func(r *campaign.Result) { r.Ran, r.Exit = true, elect.Exit{Code: code, Signal: signal} }
}

func led(r *campaign.Result) {
	r.AcquiredAt, r.Led = time.Second, 1500*time.Millisecond
	r.Lease = lease.Lease{Holder: "h/1/x", Token: 1764000000123}
}

func TestOutcomeFile(t *testing.T) {
	tests := []struct {
		result campaign.Result
		want   string
	}{
		{
			result(elect.Exited, exited(3, 0), led),
			`{"outcome":"exited","child_exit":3,"child_signal":null,"token":1764000000123,"key":"k","holder":"h/1/x","held_ms":1500}`,
		},
		{
			result(elect.Exited, exited(0, 0), led),
			`{"outcome":"exited","child_exit":0,"child_signal":null,"token":1764000000123,"key":"k","holder":"h/1/x","held_ms":1500}`,
		},
		{
			result(elect.Lost, exited(0, 9), led),
			`{"outcome":"lost","child_exit":null,"child_signal":9,"token":1764000000123,"key":"k","holder":"h/1/x","held_ms":1500}`,
		},
		{
			result(elect.NotStarted, led),
			`{"outcome":"not-started","child_exit":null,"child_signal":null,"token":1764000000123,"key":"k","holder":"h/1/x","held_ms":1500}`,
		},
		{
			result(elect.GuardDied, exited(0, 0), led),
			`{"outcome":"guard-died","child_exit":null,"child_signal":null,"token":1764000000123,"key":"k","holder":"h/1/x","held_ms":1500}`,
		},
		{
			result(elect.Denied),
			`{"outcome":"denied","child_exit":null,"child_signal":null,"token":null,"key":"k","holder":null,"held_ms":null}`,
		},
		{
			result(elect.Unavailable),
			`{"outcome":"unavailable","child_exit":null,"child_signal":null,"token":null,"key":"k","holder":null,"held_ms":null}`,
		},
	}
	for _, tt := range tests {
		c := settings.Config{Key: "k"}
		c.OutcomeFile = filepath.Join(t.TempDir(), "outcome")
		must.Succeed(t, os.WriteFile(c.OutcomeFile, []byte(strings.Repeat("the outcome of the run before", 99)), 0o600))
		must.Succeed(t, WriteOutcomeFile(c, tt.result))
		text, err := os.ReadFile(c.OutcomeFile)
		if err != nil || string(text) != tt.want+"\n" {
			t.Errorf("%s: %s, %v", tt.result.Outcome, text, err)
		}
		onlyFile(t, c.OutcomeFile)
	}
}

func onlyFile(t *testing.T, file string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(entries) != 1 || entries[0].Name() != filepath.Base(file) {
		t.Errorf("in the directory: %v, %v", entries, err)
	}
}

// A failed replacement at the end leaves no temporary file.
func TestOutcomeFileFails(t *testing.T) {
	c := settings.Config{Key: "k"}
	c.OutcomeFile = filepath.Join(t.TempDir(), "outcome")
	must.Succeed(t, os.MkdirAll(filepath.Join(c.OutcomeFile, "in the way"), 0o700))
	if err := WriteOutcomeFile(c, result(elect.Denied)); err == nil {
		t.Error("a directory was replaced")
	}
	onlyFile(t, c.OutcomeFile)
}

func TestCheckOutcomeFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, file := range []string{"", "new", "./new", dir + "/new"} {
		if err := CheckOutcomeFile(&settings.Config{OutcomeFile: file}); err != nil {
			t.Errorf("%q: %v", file, err)
		}
	}
	must.Succeed(t, os.WriteFile("old", nil, 0o600))
	if err := CheckOutcomeFile(&settings.Config{OutcomeFile: "old"}); err != nil {
		t.Error(err)
	}
	must.Succeed(t, os.Symlink("old", "link"))
	for file, problem := range map[string]string{
		"link": "not a regular file", fifo(t): "not a regular file", dir: "is a directory", "old/x": "not a directory", "absent/x": "no such file",
	} {
		if err := CheckOutcomeFile(&settings.Config{OutcomeFile: file}); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: %v, want %q", file, err, problem)
		}
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) != 2 {
		t.Errorf("the check left %v, %v", entries, err)
	}
}

// fifo returns a file that must not be replaced. A test that failed as root would
// destroy a real device.
func fifo(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fifo")
	must.Succeed(t, syscall.Mkfifo(file, 0o600))
	return file
}
