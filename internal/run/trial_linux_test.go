package run

import (
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
	_ "github.com/leaderrun/leaderrun/internal/early"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// asLeaderrun is a variable that makes the test binary a leaderrun with the settings that
// the variable contains, without the command line.
const asLeaderrun = "RUN_AS_LEADERRUN"

func TestMain(m *testing.M) {
	if IsEnder() {
		_ = End() // what it does not do is seen in the store
		os.Exit(0)
	}
	text := os.Getenv(asLeaderrun)
	if text == "" {
		_, _ = syscall.Setsid() // leave the terminal; fails only for the leader of a process group
		for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
			if signal.Ignored(s) { // by nohup, or in the background of a shell: then leaderrun would ignore it, too
				signal.Notify(make(chan os.Signal, 1), s)
			}
		}
		os.Exit(m.Run())
	}
	var c settings.Config
	err := json.Unmarshal([]byte(text), &c)
	_ = os.Unsetenv(asLeaderrun)
	var result elect.State
	if err == nil {
		line := observe.NewLine(os.Stderr, c.Key, func() bool { return true })
		status := func(r elect.State, _ settings.Config) int { return 40 + r.Exit.Code }
		result, err = Run(c, observe.NewLogger(line, slog.LevelWarn, observe.Form{}), line, status)
	}
	if err == nil {
		err = writeOutcome(filepath.Join(os.Getenv("DIR"), "outcome"), result)
	}
	if err != nil {
		_, _ = io.WriteString(os.Stderr, err.Error())
		os.Exit(125)
	}
	os.Exit(0)
}

// trial is a run with its own process and directory.
type trial struct {
	*testing.T
	settings.Config
	dir    string
	env    []string
	stdout *os.File // nil: same as stderr
	// through is a command that starts it.
	through []string
	cmd     *exec.Cmd
	stderr  string
}

// newTrial prepares a run of a shell script with a file store. DIR is its directory.
func newTrial(t *testing.T, script string) *trial {
	t.Helper()
	r := &trial{T: t, Config: settings.Default(), dir: t.TempDir()}
	r.Key, r.Store = "k", "file:"+filepath.Join(r.dir, "store")
	r.Command, r.Path = []string{"sh", "-c", script}, "/bin/sh"
	return r
}

func (r *trial) start() {
	r.Helper()
	if err := r.Validate(); err != nil {
		r.Fatal(err)
	}
	text, err := json.Marshal(r.Config)
	if err != nil {
		r.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		r.Fatal(err)
	}
	words := append(r.through, self)
	r.cmd = exec.Command(words[0], words[1:]...)
	r.cmd.Env = append(append(os.Environ(), asLeaderrun+"="+string(text), "DIR="+r.dir, "XDG_RUNTIME_DIR="+r.dir), r.env...)
	stderr, err := os.Create(filepath.Join(r.dir, "stderr"))
	if err != nil {
		r.Fatal(err)
	}
	defer stderr.Close()
	r.cmd.Stderr, r.cmd.Stdout = stderr, stderr
	if r.stdout != nil {
		r.cmd.Stdout = r.stdout
	}
	if err := r.cmd.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = r.cmd.Process.Kill() })
}

// outcome is the result of a trial. The command's end is nil if it did not run.
type outcome struct {
	Outcome candidate.Outcome
	Exit    *candidate.Exit
}

func writeOutcome(file string, r elect.State) error {
	o := outcome{Outcome: r.Outcome}
	if r.Ran {
		o.Exit = &r.Exit
	}
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

// end waits for the end and returns the result.
func (r *trial) end() outcome {
	r.Helper()
	limit := time.AfterFunc(20*time.Second, func() { _ = r.cmd.Process.Kill() })
	defer limit.Stop()
	err := r.cmd.Wait()
	r.stderr = r.file("stderr")
	var o outcome
	if json.Unmarshal([]byte(r.file("outcome")), &o) != nil || err != nil {
		r.Fatalf("%v, outcome %q, it said:\n%s", err, r.file("outcome"), r.stderr)
	}
	return o
}

func (r *trial) run() outcome {
	r.Helper()
	r.start()
	return r.end()
}

// file returns the content of a file in the directory; "" if there is none.
func (r *trial) file(name string) string {
	text, _ := os.ReadFile(filepath.Join(r.dir, name))
	return string(text)
}

// await waits until a file contains want.
func (r *trial) await(name, want string) {
	r.Helper()
	for late := time.Now().Add(20 * time.Second); !regexp.MustCompile(want).MatchString(r.file(name)); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			r.Fatalf("%s does not say %q, but %q; stderr:\n%s", name, want, r.file(name), r.file("stderr"))
		}
	}
}

func (r *trial) signal(s syscall.Signal) {
	r.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.Fatal(err)
	}
}

func (r *trial) want(o outcome, why candidate.Outcome, exit, signal int) {
	r.Helper()
	gotExit, gotSignal := -1, -1
	switch {
	case o.Exit == nil:
	case o.Exit.Signal != 0:
		gotSignal = o.Exit.Signal
	default:
		gotExit = o.Exit.Code
	}
	if o.Outcome != why || gotExit != exit || gotSignal != signal {
		r.Errorf("%s, exit %d, signal %d; want %s, %d, %d; it said:\n%s", o.Outcome, gotExit, gotSignal, why, exit, signal, r.stderr)
	}
}
