//go:build linux

package program

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/proc"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// shapes are kinds of process trees. Each prints "ready" when it is complete.
var shapes = map[string]string{
	"plain":        "echo ready; exec sleep 60",
	"ignores TERM": "trap '' TERM; echo ready; while :; do sleep 0.1; done",
	"pipeline":     "echo ready; sleep 60 | cat | cat",
	"worker":       "sh -c 'sleep 60 & echo ready; wait'",
	"setsid":       "setsid sh -c 'trap \"\" TERM; sleep 60 & wait' & echo ready; wait",
	"double fork":  "(setsid sh -c 'sleep 60 &' &); echo ready; sleep 60",
	"fork chain":   "link() { [ $1 = 0 ] || { sleep 0.01; link $(($1-1)) & }; }; link 300; echo ready; sleep 60",
}

// hits say which processes get which signal. A stopped guard alone does no harm: the elector
// renews, and the guard is continued when its own kill-by comes.
var hits = []struct {
	name           string
	elector, guard syscall.Signal
	status         int // of leaderrun, once it is over
}{
	{"elector killed", syscall.SIGKILL, 0, 128 + 9},
	{"elector stopped", syscall.SIGSTOP, 0, 76},
	{"guard killed", 0, syscall.SIGKILL, 125},
	{"guard stopped", 0, syscall.SIGSTOP, 0},
	{"both killed", syscall.SIGKILL, syscall.SIGKILL, 128 + 9},
	{"both stopped", syscall.SIGSTOP, syscall.SIGSTOP, 76},
}

// TestKillMatrix signals elector and guard. The next leader's command, at its start, must
// find no living process of the previous tree.
func TestKillMatrix(t *testing.T) {
	t.Parallel()
	for shape, script := range shapes {
		for _, hit := range hits {
			t.Run(hit.name+"/"+shape, func(t *testing.T) {
				t.Parallel()
				m := lead(t, script)
				guard := childOf(t, m.elector.Process.Pid)
				if hit.name == "both killed" {
					// Since then the kernel kills the command's group with the guard.
					eventually(t, "the guard has a session of its own", func() bool { return proc.SessionOf(guard) == guard })
					// Otherwise the elector might be done before its turn comes.
					send(t, m.elector.Process.Pid, syscall.SIGSTOP)
				}
				send(t, guard, hit.guard) // first: a guard whose elector is dead is gone at once
				send(t, m.elector.Process.Pid, hit.elector)
				if hit.guard == syscall.SIGSTOP && hit.elector == 0 {
					m.outlives(t, 4500*time.Millisecond) // one and a half TTLs
					send(t, m.elector.Process.Pid, syscall.SIGKILL)
					hit.status = 128 + 9
				}
				survivors := m.successor(t)
				if hit.name == "both killed" && (shape == "setsid" || shape == "double fork") {
					survivors = only(survivors, m.command) // the promise covers only the command's group
				}
				if len(survivors) > 0 {
					t.Errorf("alive when the next leader's command started: %v", survivors)
				}
				if got := status(t, m.elector); got != hit.status {
					t.Errorf("leaderrun ended with %d, want %d", got, hit.status)
				}
			})
		}
	}
}

// A job whose process, in its group, stops elector and guard again and again, or kills one of them and
// stops the other, is dead before the lease is somebody else's.
func TestStoppedAgainAndAgain(t *testing.T) {
	t.Parallel()
	const job = `guard=$PPID; elector=$(awk '{print $4}' /proc/$guard/stat)
trap '' TERM
again() { echo ready; while :; do kill -STOP "$@" 2>&-; done; }
`
	for name, test := range map[string]struct {
		script string
		status int
	}{
		"both":               {"again $guard $elector", 76},
		"both, from a child": {"again $guard $elector & wait", 76},
		"guard killed":       {"{ again $elector & } ; sleep 0.1; kill -KILL $guard; wait", 76},
		"elector killed":     {"{ again $guard & } ; sleep 0.1; kill -KILL $elector; wait", 128 + 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := lead(t, job+test.script)
			if survivors := m.successor(t); len(survivors) > 0 {
				t.Errorf("alive when the next leader's command started: %v", survivors)
			}
			if got := status(t, m.elector); got != test.status {
				t.Errorf("leaderrun ended with %d, want %d", got, test.status)
			}
		})
	}
}

// A hook or a check whose exec hangs, as on a file system that does not answer, is a matter of its
// own guard: the lease is renewed all the same, and a dead guard's tree is killed.
func TestHookThatHangs(t *testing.T) {
	for flag, atOnce := range map[string]bool{"--on-acquire": true, "--eligible": false} { // the first check has to succeed
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			hook := filepath.Join(t.TempDir(), "hook")
			must.Succeed(t, os.WriteFile(hook, []byte("#!/bin/sh\n"), 0o700))
			held, err := os.Open(hook)
			must.Succeed(t, err)
			defer held.Close()
			hang := func() bool { // for 45 s at most, unless somebody executes it now
				_, err := unix.FcntlInt(held.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
				return err == nil
			}
			if atOnce && !hang() {
				t.Fatal("it does not hang")
			}
			m := lead(t, shapes["setsid"], flag+"="+hook)
			if !atOnce {
				eventually(t, "nobody executes it", hang)
			}
			m.outlives(t, 4500*time.Millisecond) // one and a half TTLs
			children, _ := proc.ChildrenOf(m.elector.Process.Pid)
			for _, guard := range children {
				if proc.Descends(m.command, guard) {
					send(t, guard, syscall.SIGKILL)
				}
			}
			if survivors := m.successor(t); len(survivors) > 0 {
				t.Errorf("alive when the next leader's command started: %v", survivors)
			}
			held.Close()
			if got := status(t, m.elector); got != 125 {
				t.Errorf("leaderrun ended with %d, want 125", got)
			}
		})
	}
}

// leader is a leading leaderrun and the mark of its tree.
type leader struct {
	dir, mark string
	elector   *exec.Cmd
	command   int
}

// matrixTTL leaves a kill margin of half a second.
const matrixTTL = "--ttl=3s"

func lead(t *testing.T, script string, flags ...string) *leader {
	t.Helper()
	dir := memory(t)
	m := &leader{dir: dir, mark: "MATRIX=" + dir}
	m.elector = leaderrun(dir, append(flags, "-q", "--", "bash", "-c", "echo $$ >pid; exec >ready\n"+script)...)
	m.elector.Env = append(os.Environ(), m.mark)
	must.Succeed(t, m.elector.Start())
	t.Cleanup(func() {
		_ = m.elector.Process.Kill()
		for _, pid := range m.alive() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	eventually(t, "the tree stands", func() bool {
		b, _ := os.ReadFile(filepath.Join(dir, "ready"))
		return strings.Contains(string(b), "ready")
	})
	var err error
	m.command, err = strconv.Atoi(strings.TrimSpace(must.Read(t, filepath.Join(dir, "pid"))))
	must.Succeed(t, err)
	return m
}

// memory returns a directory in memory: on a busy disk a sync can take longer than a lease
// of three seconds.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "matrix") //nolint:usetesting // t.TempDir is on a disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func leaderrun(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("leaderrun", append([]string{"--store=file:" + filepath.Join(dir, "store"), "--key=k", matrixTTL, "-k=300ms"}, args...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	return cmd
}

// childOf returns the only child of a process: the guard of an elector.
func childOf(t *testing.T, pid int) int {
	t.Helper()
	children, _ := proc.ChildrenOf(pid)
	if len(children) != 1 {
		t.Fatalf("process %d has the children %v, want one", pid, children)
	}
	return children[0]
}

// alive lists the processes of the tree, which have the mark in their environment. A zombie
// has none.
func (m *leader) alive() []int {
	return m.tree(marked(m.mark))
}

// tree removes the elector from pids.
func (m *leader) tree(pids []int) []int {
	return slices.DeleteFunc(pids, func(pid int) bool { return pid == m.elector.Process.Pid })
}

// marked lists the living processes with the mark in their environment.
func marked(mark string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ") // fails on a bad pattern only
	for _, file := range all {
		environ, _ := os.ReadFile(file) // who has ended has none
		if slices.Contains(strings.Split(string(environ), "\x00"), mark) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// survivors prints the same for the mark $1, when a command starts. The process that has released
// the lease of a dead elector may still be about to end.
const survivors = `ender=$(grep -lsx lease-ender /proc/[0-9]*/comm | cut -d/ -f3)
grep -lszx -- "$1" /proc/[0-9]*/environ | cut -d/ -f3 | grep -vxF "${ender:-none}" || :`

func (m *leader) outlives(t *testing.T, d time.Duration) {
	t.Helper()
	time.Sleep(d) // nothing happens: that is the point
	if only(m.alive(), m.command) == nil {
		t.Error("the command is dead although its elector is well")
	}
}

// successor runs the next leader and returns the processes that its command found alive.
func (m *leader) successor(t *testing.T) []int {
	t.Helper()
	next := leaderrun(m.dir, "-q", "--wait=forever", "--retry=10ms", "--", "sh", "-c", survivors, "sh", m.mark)
	out, err := next.Output()
	if err != nil {
		t.Fatalf("the next leader: %v", err)
	}
	var pids []int
	for field := range strings.FieldsSeq(string(out)) {
		pid, err := strconv.Atoi(field)
		must.Succeed(t, err)
		pids = append(pids, pid)
	}
	return m.tree(pids)
}

func only(pids []int, pid int) []int {
	for _, p := range pids {
		if p == pid {
			return []int{p}
		}
	}
	return nil
}

func send(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if sig == 0 {
		return
	}
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatalf("signal %d to %d: %v", sig, pid, err)
	}
}

// status waits for the end of a process and returns its status as a shell does.
func status(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	stuck := time.AfterFunc(patience, func() {
		t.Errorf("%s still runs after %s", cmd, patience)
		_ = cmd.Process.Kill()
	})
	defer stuck.Stop()
	_ = cmd.Wait() // what it says is in ProcessState
	s := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}

// patience is how long a test waits before it fails.
const patience = time.Minute

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}
