package runner

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/internal/proc"
)

// Only Linux tells everything about a process tree, and only there it is held.

// dead fails the test if the process lives; a zombie is dead.
func dead(t *testing.T, pid int) {
	t.Helper()
	if state, ok := lives(pid); ok {
		t.Errorf("process %d lives, state %s", pid, state)
	}
}

func lives(pid int) (state string, ok bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false
	}
	state = strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[0]
	return state, state != "Z" && state != "X"
}

// tree is a script that leaves processes at every distance and writes their
// process ids to a pipe that it inherits as its standard output.
const tree = `
trap '' TERM
sh -c 'echo $$; sleep 61 & wait' &
setsid sh -c 'trap "" TERM; echo $$; sleep 62 & echo $!; wait' &
sh -c '(setsid sh -c "echo \$\$; sleep 63" &) ; exit 0'
sleep 64 | sleep 65 &
echo ready
wait
`

// A guard that is stopped is woken by the kernel at kill-by.
func TestStoppedGuardIsWoken(t *testing.T) {
	r, reports, pids := startTree(t, Now()+soon)
	r.now.guard.signal(syscall.SIGSTOP)
	last(t, reports)
	for _, pid := range pids {
		dead(t, pid)
	}
}

// A guard that is killed before it has said so may have started the command.
func TestUnheardIsNotFailed(t *testing.T) {
	r := New("/bin/true", []string{"true"})
	r.Prepare()
	r.now.guard.signal(syscall.SIGSTOP)
	reports := make(chan Report, 8)
	r.now.guard.reaped = true // or the start would continue it
	r.Start(far(), nil, func(rep Report) { reports <- rep })
	r.now.guard.reaped = false
	r.now.guard.signal(syscall.SIGKILL)
	if gone := next(t, reports, Gone); gone.Err == nil {
		t.Errorf("%+v", gone)
	}
}

func TestLeftoversAreTold(t *testing.T) {
	r, reports := start(t, far(), "setsid sleep 60 & exit 4")
	next(t, reports, Started)
	if ended := next(t, reports, Ended); ended.Status.ExitStatus() != 4 {
		t.Errorf("%+v", ended)
	}
	r.Signal(int(syscall.SIGTERM))
	if gone := next(t, reports, Gone); gone.Status.ExitStatus() != 4 {
		t.Errorf("%+v", gone)
	}
}

func TestNames(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script-with-a-long-name")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho up\nread line\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "program-with-a-long-name")
	if err := os.Symlink("/bin/sh", program); err != nil {
		t.Fatal(err)
	}
	for want, argv := range map[string][]string{
		"script-with-a-long-name":  {script},
		"program-with-a-long-name": {program, "-c", "echo up; read line"},
		"sh":                       {"/bin/sh", "-c", "echo up; read line"},
	} {
		cmd := exec.Command(argv[0], argv[1:]...)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if got := nameOf(cmd.Process.Pid); got != want {
			t.Errorf("%q is called %q, want %q", argv, got, want)
		}
		in.Close()
		_ = cmd.Wait()
		if got := nameOf(cmd.Process.Pid); got != "" {
			t.Errorf("a process that is gone is called %q", got)
		}
	}
}

func TestLeftAlive(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	r, reports := start(t, far(), "setsid sleep 60 & echo $! >"+file)
	next(t, reports, Started)
	next(t, reports, Ended)
	r.Leave()
	r.Close() // the guard is gone
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("the descendant that was to be left alive: %v", err)
	}
	sweep(nil, &helpers{})
}

// A tree that cannot be looked for, as there is no descriptor for it, is not gone.
func TestUnseenIsNotGone(t *testing.T) {
	limit, usual := descriptors(t)
	limit(0)
	blind := swept(nil, &helpers{})
	limit(usual)
	if blind {
		t.Error("nobody was left, although nobody could be seen")
	}
	sweep(nil, &helpers{})
}

// A process that the command's group has been sent a signal with is not sent it
// again when its parent is gone.
func TestSignalledOnce(t *testing.T) {
	heard := filepath.Join(t.TempDir(), "heard")
	worker := `trap "echo TERM >>` + heard + `" TERM; echo up >>` + heard + `; while ! [ -e ` + heard + `.end ]; do sleep 0.01; done`
	r, reports := start(t, far(), "bash -c '"+worker+"' & wait")
	next(t, reports, Started)
	content := func() string { b, _ := os.ReadFile(heard); return string(b) }
	await(t, func() bool { return content() == "up\n" })
	r.Signal(int(syscall.SIGTERM))
	next(t, reports, Ended)
	r.Signal(int(syscall.SIGTERM))
	await(t, func() bool { return content() != "up\n" })
	if err := os.WriteFile(heard+".end", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	next(t, reports, Gone)
	if content() != "up\nTERM\n" {
		t.Errorf("the worker heard %q", content())
	}
}

// A prepared guard that has died meanwhile is replaced.
func TestPreparedGuardIsReplaced(t *testing.T) {
	r := New("/bin/sh", []string{"sh", "-c", "exit 6"})
	r.Prepare()
	r.now.guard.signal(syscall.SIGKILL)
	proc.AwaitEnd(r.now.guard.pid)
	reports := make(chan Report, 8)
	r.Start(far(), nil, func(rep Report) { reports <- rep })
	defer r.Close()
	next(t, reports, Started)
	if gone := next(t, reports, Gone); gone.Status.ExitStatus() != 6 {
		t.Errorf("%+v", gone)
	}
}

// Nobody but the start continues one that was stopped before: it has no kill-by yet.
func TestStoppedPreparedGuardStarts(t *testing.T) {
	r := New("/bin/sh", []string{"sh", "-c", "exit 6"})
	r.Prepare()
	r.now.guard.signal(syscall.SIGSTOP)
	await(t, func() bool { state, _ := lives(r.now.guard.pid); return state == "T" })
	reports := make(chan Report, 8)
	r.Start(far(), nil, func(rep Report) { reports <- rep })
	t.Cleanup(func() { r.Kill(); r.Close() })
	next(t, reports, Started)
	if gone := next(t, reports, Gone); gone.Status.ExitStatus() != 6 {
		t.Errorf("%+v", gone)
	}
}

// Where the system has nothing for another guard, that is told, and all there was is
// put away once.
func TestPreparedGuardIsNotReplaced(t *testing.T) {
	limit, usual := descriptors(t)
	r := New("/bin/true", []string{"true"})
	r.Prepare()
	r.now.guard.signal(syscall.SIGKILL)
	proc.AwaitEnd(r.now.guard.pid)
	reports := make(chan Report, 8)
	limit(3)
	r.Start(far(), nil, func(rep Report) { reports <- rep })
	limit(usual)
	if failed := next(t, reports, Failed); !errors.Is(failed.Err, ErrGuard) {
		t.Errorf("%+v", failed)
	}
	r.Close()
}

func TestDispositions(t *testing.T) {
	// The command must be able to stop and to be ended: nothing that the guard
	// ignores may reach it ignored.
	out, err := exec.Command("/bin/sh", "-c", "grep SigIgn /proc/self/status").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "status")
	_, reports := start(t, far(), "grep SigIgn /proc/self/status >"+file)
	next(t, reports, Started)
	next(t, reports, Gone)
	got, err := os.ReadFile(file)
	if err != nil || string(got) != string(out) {
		t.Errorf("ignored signals under the guard %q, without %q (%v)", got, out, err)
	}
}
