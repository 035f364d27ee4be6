package runner

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/proc"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// startHook runs a shell script as a hook, and returns a channel for its error.
func startHook(r *Runner, limit time.Duration, cut <-chan struct{}, script string) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- r.RunHook("/bin/sh", []string{"sh", "-c", script}, os.Environ(), limit, cut) }()
	return ended
}

func endOf(t *testing.T, ended <-chan error) string {
	t.Helper()
	select {
	case err := <-ended:
		if err == nil {
			return ""
		}
		return err.Error()
	case <-time.After(20 * time.Second):
		t.Fatal("it has not ended within 20 s")
		panic("unreachable")
	}
}

func TestBeside(t *testing.T) {
	r := New("/bin/true", []string{"true"})
	for script, want := range map[string]string{
		"exit 0": "", "exit 3": "exit status 3", "kill -TERM $$": "it died of a signal: terminated",
		"test -c /dev/stdin && ! read line": "",
	} {
		if got := endOf(t, startHook(r, time.Minute, nil, script)); got != want {
			t.Errorf("%s ended with %q, want %q", script, got, want)
		}
	}
	if err := r.RunHook("/nonexistent", []string{"x"}, nil, time.Minute, nil); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("what does not exist: %v", err)
	}
}

// A hook that hangs is killed with its process group.
func TestBesideIsLimited(t *testing.T) {
	r := New("/bin/true", []string{"true"})
	file := filepath.Join(t.TempDir(), "pids")
	script := "trap '' TERM; for i in 1 2 3 4 5 6 7 8 9; do sleep 60 & all=\"$all $!\"; done; echo $$ $all >" + file + ".new; mv " + file + ".new " + file + "; wait"
	cut := make(chan struct{})
	ended := startHook(r, time.Minute, cut, script)
	await(t, func() bool { _, err := os.Stat(file); return err == nil })
	close(cut)
	if got := endOf(t, ended); got != "killed, because leaderrun ends" {
		t.Errorf("%q", got)
	}
	pids := must.Read(t, file)
	for field := range strings.FieldsSeq(pids) {
		pid, err := strconv.Atoi(field)
		must.Succeed(t, err)
		if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
			t.Errorf("process %d of a hook that has returned: %v", pid, err)
		}
	}
	must.Succeed(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0))
	if got := endOf(t, startHook(r, 50*time.Millisecond, nil, script)); got != "killed after 50ms" {
		t.Errorf("%q", got)
	}
	var adopts int32
	if err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&adopts)), 0, 0, 0); err != nil || adopts != 1 {
		t.Errorf("the orphans of a hook are not adopted, so nobody knows when they have ended: %v", err)
	}
}

// The tree of a dead guard is killed. A hook is not killed with it, and its status is not
// lost.
func TestBesideOutlivesTheGuard(t *testing.T) {
	r, reports, pids := startTree(t)
	dir := t.TempDir()
	ended := startHook(r, time.Minute, nil, "touch "+dir+"/up; until [ -e "+dir+"/go ]; do sleep 0.01; done; exit 5")
	await(t, func() bool { _, err := os.Stat(dir + "/up"); return err == nil })
	guardOf(r).signal(syscall.SIGKILL)
	last(t, reports)
	for _, pid := range pids {
		dead(t, pid)
	}
	must.Succeed(t, os.WriteFile(dir+"/go", nil, 0o600))
	if got := endOf(t, ended); got != "exit status 5" {
		t.Errorf("it ended with %q", got)
	}
}

// The first process of a container reaps all children, except those that it has started
// itself and waits for.
func TestOthersAreReaped(t *testing.T) {
	var h helpers
	attr := &syscall.ProcAttr{}
	own, err := h.start("/bin/true", []string{"true"}, attr)
	must.Succeed(t, err)
	other, err := syscall.ForkExec("/bin/true", []string{"true"}, attr)
	must.Succeed(t, err)
	h.before = []int{other}
	if !h.spares(own) || !h.spares(other) {
		t.Error("a child that no guard has left is not spared")
	}
	proc.AwaitEnd(own)
	proc.AwaitEnd(other)
	h.reapSome()
	if _, err := syscall.Wait4(other, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("the other child was not reaped: %v", err)
	}
	if h.spares(other) {
		t.Error("an id that may be used again is spared")
	}
	if status, ended := h.reap(own); !ended || !status.Exited() {
		t.Errorf("the own child was reaped: %v", status)
	}
	if h.spares(own) {
		t.Error("the id of a helper that has ended is spared")
	}
}

// The first process of a container reaps children that have ended already, and those that end
// later.
func TestFirstProcessReaps(t *testing.T) {
	if cmd := ownProcess(t); cmd != nil {
		unshare := []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}
		if exec.Command(unshare[0], append(unshare[1:], "true")...).Run() != nil {
			t.Skip("it takes the right to make a process namespace")
		}
		cmd.Args = append(unshare, cmd.Args...)
		cmd.Path, _ = exec.LookPath(cmd.Args[0])
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	end := func(began func()) {
		pid, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{})
		must.Succeed(t, err)
		proc.AwaitEnd(pid)
		began()
		await(t, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH })
	}
	r := New("/bin/true", []string{"true"})
	end(r.Prepare)
	end(func() {})
	r.Close()
}

// A helper that runs has not ended, and waiting for it uses no processor time.
func TestHelperIsAwaited(t *testing.T) {
	var h helpers
	pid, err := h.start("/bin/sleep", []string{"sleep", "0.5"}, &syscall.ProcAttr{})
	must.Succeed(t, err)
	if _, ended := h.reap(pid); ended {
		t.Error("a helper that runs has ended")
	}
	used := func() time.Duration {
		var usage syscall.Rusage
		must.Succeed(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	before := used()
	h.await(pid)
	if took := used() - before; took > 100*time.Millisecond {
		t.Errorf("waiting took %s of the processor", took)
	}
}

// No helper starts during a kill. The kill waits for a helper that is starting, but not for
// ever.
func TestStartsArePaused(t *testing.T) {
	var h helpers
	resume := h.pauseStarts()
	if h.starts.TryRLock() {
		t.Error("a helper can start beside a kill")
	}
	resume()
	h.starts.RLock()
	began := Now()
	h.pauseStarts()()
	if waited := Now() - began; waited < startLimit {
		t.Errorf("a kill waited %s for a helper that was starting", waited)
	}
}

// The group of a hook has ended when its last process has.
func TestGroupIsReaped(t *testing.T) {
	start := func(group int) (pid int) {
		pid, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "60"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setpgid: true, Pgid: group}})
		must.Succeed(t, err)
		return pid
	}
	kill := func(pid int) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		proc.AwaitEnd(pid)
	}
	var h helpers
	first := start(0)
	second := start(first)
	kill(first)
	if h.reapGroup(first) {
		t.Error("a group with a process has ended")
	}
	kill(second)
	if !h.reapGroup(first) {
		t.Error("a group of zombies has not ended")
	}
	for _, pid := range []int{first, second} {
		if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
			t.Errorf("process %d is not reaped: %v", pid, err)
		}
	}
	third := start(0)
	time.AfterFunc(50*time.Millisecond, func() { _ = syscall.Kill(third, syscall.SIGKILL) })
	h.awaitGroup(third)
	if err := syscall.Kill(third, 0); err != syscall.ESRCH {
		t.Errorf("the group was not waited for: %v", err)
	}
}

// A hook whose exec hangs, as on a file system that does not answer, does not delay the kill of a
// dead guard's tree.
func TestHangingHookDelaysNoKill(t *testing.T) {
	hook := filepath.Join(t.TempDir(), "hook")
	must.Succeed(t, os.WriteFile(hook, []byte("#!/bin/sh\n"), 0o755))
	held, err := os.Open(hook)
	must.Succeed(t, err)
	defer held.Close()
	// An open of the file waits until this lease (fcntl) is given up, for 45 s at most. A close
	// does not give it up: the hook's process has the descriptor, too, until its exec.
	setLease := func(kind uintptr) {
		const command = 1024 // F_SETLEASE
		if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, held.Fd(), command, kind); errno != 0 {
			t.Fatal(errno)
		}
	}
	setLease(syscall.F_WRLCK)
	r, reports, pids := startTree(t)
	ended := make(chan error, 1)
	go func() { ended <- r.RunHook(hook, []string{"hook"}, os.Environ(), time.Minute, nil) }()
	await(t, func() bool { children, _ := proc.ChildrenOf(os.Getpid()); return len(children) > 1 }) // the guard and the hook
	killGuard(r)
	last(t, reports)
	for _, pid := range pids {
		dead(t, pid)
	}
	setLease(syscall.F_UNLCK)
	// It was killed with the tree. The sweep may have reaped it, and its status with it.
	if got := endOf(t, ended); got != "" && got != "it died of a signal: killed" {
		t.Errorf("the hook ended with %q", got)
	}
}
