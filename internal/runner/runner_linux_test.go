package runner

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/internal/proc"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// Whole process trees are only known on Linux.

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

// What outlives the command is signalled as the command is, with its group: a shell and what it waits for.
func TestLeftoversAreSignalled(t *testing.T) {
	r, reports := start(t, far(), "setsid sh -c 'sleep 60; :' & exit 4")
	next(t, reports, Started)
	if ended := next(t, reports, Ended); ended.Status.ExitStatus() != 4 || !regexp.MustCompile(`^process [0-9]+ \((sh|setsid|sleep)\)$`).MatchString(ended.Left) {
		t.Errorf("%+v", ended)
	}
	r.Signal(int(syscall.SIGTERM))
	if gone := next(t, reports, Gone); gone.Status.ExitStatus() != 4 {
		t.Errorf("%+v", gone)
	}
}

// A command that has left its process group still gets its signals.
func TestSignalFollowsTheCommand(t *testing.T) {
	if _, err := exec.LookPath("perl"); err != nil {
		t.Skip("no shell changes its own process group, and there is no perl")
	}
	left := filepath.Join(t.TempDir(), "left")
	r, reports := start(t, far(), `exec perl -e '$SIG{TERM} = sub { exit 9 }; setpgrp(0, `+strconv.Itoa(syscall.Getpgrp())+`) or die; open F, ">", "`+left+`"; sleep 60'`)
	next(t, reports, Started)
	await(t, func() bool { _, err := os.Stat(left); return err == nil })
	r.Signal(int(syscall.SIGTERM))
	if gone := next(t, reports, Gone); gone.Status.ExitStatus() != 9 {
		t.Errorf("%+v", gone)
	}
}

// The kernel knows 15 bytes of a name. More would be found in the memory of the process.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script-with-a-long-name")
	must.Succeed(t, os.WriteFile(script, []byte("#!/bin/sh\necho up\nread line\n"), 0o755))
	program := filepath.Join(dir, "program-with-a-long-name")
	must.Succeed(t, os.Symlink("/bin/sh", program))
	for want, argv := range map[string][]string{
		"script-with-a-l": {script},
		"program-with-a-": {program, "-c", "echo up; read line"},
		"sh":              {"/bin/sh", "-c", "echo up; read line"},
	} {
		cmd := exec.Command(argv[0], argv[1:]...)
		in, err := cmd.StdinPipe()
		must.Succeed(t, err)
		out, err := cmd.StdoutPipe()
		must.Succeed(t, err)
		must.Succeed(t, cmd.Start())
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
	isReaped(t, r)
	b := must.Read(t, file)
	pid, err := strconv.Atoi(strings.TrimSpace(b))
	must.Succeed(t, err)
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("the descendant that was to be left alive: %v", err)
	}
	(&guarded{children: r.children, guard: guardOf(r)}).killLeftBehind()
}

// A tree that cannot be listed counts as alive.
func TestUnlistableTreeCountsAsAlive(t *testing.T) {
	next, err := syscall.Dup(0)
	must.Succeed(t, err)
	syscall.Close(next)
	children, err := proc.OpenChildren()
	must.Succeed(t, err)
	syscall.Close(next) // the list's
	if _, _, none := sweepOnce(children, 0, &guards{}); none {
		t.Error("nobody was left, although nobody could be seen")
	}
}

// A tree is killed even if the system has no descriptor left.
func TestTreeIsDeadWithoutDescriptors(t *testing.T) {
	r, reports, pids := startTree(t)
	limit, usual := descriptors(t)
	limit(0)
	r.current.guard.signal(syscall.SIGKILL)
	last(t, reports)
	limit(usual)
	for _, pid := range pids {
		dead(t, pid)
	}
}

// Each order reaches the processes that outlive the command once: a signal that they got with
// the group is not repeated, and the next order is a new one.
func TestLeftoversAreSignalledOncePerOrder(t *testing.T) {
	heard := filepath.Join(t.TempDir(), "heard")
	worker := `trap "echo USR2 >>` + heard + `" USR2; trap "echo USR1 >>` + heard + `" USR1; echo up >>` + heard + `; while ! [ -e ` + heard + `.end ]; do sleep 0.01; done`
	r, reports := start(t, far(), "bash -c '"+worker+"' & wait")
	next(t, reports, Started)
	hears := func(want string) {
		t.Helper()
		content := ""
		await(t, func() bool { b, _ := os.ReadFile(heard); content = string(b); return strings.HasSuffix(content, want) })
		if content != want {
			t.Fatalf("the worker heard %q, want %q", content, want)
		}
	}
	hears("up\n")
	r.Signal(int(syscall.SIGUSR2))
	next(t, reports, Ended)
	hears("up\nUSR2\n") // of two signals that are pending the lower number comes first
	r.SignalRest(int(syscall.SIGUSR2))
	r.Signal(int(syscall.SIGUSR1))
	hears("up\nUSR2\nUSR1\n")
	r.Signal(int(syscall.SIGUSR2))
	hears("up\nUSR2\nUSR1\nUSR2\n")
	must.Succeed(t, os.WriteFile(heard+".end", nil, 0o600))
	next(t, reports, Gone)
}

func TestDispositions(t *testing.T) {
	// Signals can stop and end the command: it must not inherit the signals that the guard
	// ignores.
	out, err := exec.Command("/bin/sh", "-c", "grep SigIgn /proc/self/status").Output()
	must.Succeed(t, err)
	file := filepath.Join(t.TempDir(), "status")
	_, reports := start(t, far(), "grep SigIgn /proc/self/status >"+file)
	next(t, reports, Started)
	next(t, reports, Gone)
	got, err := os.ReadFile(file)
	if err != nil || string(got) != string(out) {
		t.Errorf("ignored signals under the guard %q, without %q (%v)", got, out, err)
	}
}

// Each time that the wall clock is set is reported; several times may be reported as one.
func TestWallClockSet(t *testing.T) {
	if WallClockSet() == nil {
		t.Error("this kernel does not say so")
	}
	r, w := io.Pipe()
	said := canceled(readerFunc(func(b []byte) (int, error) {
		if _, err := r.Read(b); err != nil {
			return 0, err
		}
		return 0, &os.PathError{Op: "read", Path: "timerfd", Err: syscall.ECANCELED}
	}))
	for range 3 {
		if _, err := w.Write([]byte{0}); err != nil {
			t.Fatal(err)
		}
		<-said
	}
	for range 3 { // nobody receives, and the reader goes on
		if _, err := w.Write([]byte{0}); err != nil {
			t.Fatal(err)
		}
	}
	<-said
	w.Close()
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// A service manager signals all processes of a service, and the guard knows that: a second TERM
// would end a command that cleans up.
func TestSignalToAllArrivesOnce(t *testing.T) {
	for _, guardFirst := range []bool{true, false} {
		heard := filepath.Join(t.TempDir(), "heard")
		r, reports := start(t, far(), `trap 'echo TERM >>`+heard+`' TERM; trap 'exit 5' USR1; echo up >>`+heard+`; while :; do sleep 0.01; done`)
		command := next(t, reports, Started).Pid
		has := func(want string) { await(t, func() bool { b, _ := os.ReadFile(heard); return string(b) == want }) }
		has("up\n")
		must.Succeed(t, syscall.Kill(command, syscall.SIGTERM))
		has("up\nTERM\n")
		if guardFirst {
			guardOf(r).signal(syscall.SIGTERM)
			r.Signal(int(syscall.SIGTERM))
		} else {
			r.Signal(int(syscall.SIGTERM))
			guardOf(r).signal(syscall.SIGTERM)
		}
		r.Signal(int(syscall.SIGUSR1))
		if gone := next(t, reports, Gone); gone.Status.ExitStatus() != 5 {
			t.Errorf("%+v", gone)
		}
		has("up\nTERM\n")
	}
}
