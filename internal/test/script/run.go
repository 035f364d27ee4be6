//go:build linux

package script

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// run is one command that a script started. Its output goes to files. With pipes, the end of
// the command would be noticed only once every process that has the pipe open has ended.
type run struct {
	name     string
	cmd      *exec.Cmd
	out, err string
	began    time.Time
	took     time.Duration
	done     chan struct{} // closed when the process has ended and took is set
}

// foreground is the name of a run by exitcode.
const foreground = ".fg"

func exitcode(ts *testscript.TestScript, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exitcode N command [args...]")
	}
	want := number(ts, args[0])
	of(ts).finish(ts, of(ts).start(ts, foreground, args[1:]), want)
}

func start(ts *testscript.TestScript, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: start NAME command [args...]")
	}
	s := of(ts)
	if s.runs[args[0]] != nil {
		ts.Fatalf("there is a run %s already", args[0])
	}
	s.runs[args[0]] = s.start(ts, args[0], args[1:])
}

func ended(ts *testscript.TestScript, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: ended NAME N")
	}
	s := of(ts)
	r := s.runs[args[0]]
	if r == nil {
		ts.Fatalf("no run %s", args[0])
	}
	delete(s.runs, args[0])
	s.finish(ts, r, number(ts, args[1]))
}

func took(ts *testscript.TestScript, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: took MIN MAX")
	}
	low, err := time.ParseDuration(args[0])
	ts.Check(err)
	high, err := time.ParseDuration(args[1])
	ts.Check(err)
	if d := of(ts).last; d < low || d > high {
		ts.Fatalf("it took %s, want %s to %s", d, low, high)
	}
}

// start starts a command of the script, with the script's environment and the mark of the run.
func (s *script) start(ts *testscript.TestScript, name string, args []string) *run {
	r := &run{
		name: name,
		cmd:  exec.Command(args[0], args[1:]...),
		out:  filepath.Join(s.workDir, name+".out"),
		err:  filepath.Join(s.workDir, name+".err"),
		done: make(chan struct{}),
	}
	stdout, err := os.Create(r.out)
	ts.Check(err)
	defer stdout.Close()
	stderr, err := os.Create(r.err)
	ts.Check(err)
	defer stderr.Close()
	r.cmd.Dir = ts.MkAbs(".")
	r.cmd.Env = append(s.environ(ts), "PWD="+r.cmd.Dir, markName+"="+s.mark(name))
	r.cmd.Stdout, r.cmd.Stderr = stdout, stderr
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // so that it never has a terminal
	r.began = time.Now()
	ts.Check(r.cmd.Start())
	go func() {
		_ = r.cmd.Wait() // the status is read from ProcessState
		r.took = time.Since(r.began)
		close(r.done)
	}()
	return r
}

// environ returns the script's environment, which testscript only gives to processes that it
// starts itself.
func (s *script) environ(ts *testscript.TestScript) []string {
	file := filepath.Join(s.workDir, ".env")
	ts.Check(ts.Exec("sh", "-c", `env -0 >"$0"`, file))
	all := strings.TrimSuffix(ts.ReadFile(file), "\x00")
	return strings.Split(all, "\x00")
}

// finish waits for the end of a run, and makes its output the script's stdout and stderr. It
// asserts the status, and that no process of the run is left.
func (s *script) finish(ts *testscript.TestScript, r *run, want int) {
	select {
	case <-r.done:
	case <-time.After(patience):
		ts.Fatalf("%s still runs after %s; stderr:\n%s", r.cmd, patience, ts.ReadFile(r.err))
	}
	left := s.marked(r.name)
	s.last = r.took
	_, _ = ts.Stdout().Write([]byte(ts.ReadFile(r.out)))
	_, _ = ts.Stderr().Write([]byte(ts.ReadFile(r.err)))
	state := r.cmd.ProcessState.Sys().(syscall.WaitStatus)
	got := state.ExitStatus()
	if state.Signaled() {
		got = 128 + int(state.Signal())
	}
	if got != want {
		ts.Fatalf("%s ended with %d, want %d", r.cmd, got, want)
	}
	// Processes may outlive leaderrun only if it was killed or crashed: then its guard kills them,
	// and ends the lease.
	killed := state.Signaled() && state.Signal() == syscall.SIGKILL
	crashed := got == 2 && strings.Contains(ts.ReadFile(r.err), "\ngoroutine ")
	if len(left) > 0 && !killed && !crashed {
		ts.Fatalf("%s ended and left behind:\n%s", r.cmd, describe(left))
	}
}

func number(ts *testscript.TestScript, arg string) int {
	n, err := strconv.Atoi(arg)
	ts.Check(err)
	return n
}
