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

	"github.com/leaderrun/leaderrun/internal/proc"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/silentfs"
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

// A hook that hangs is killed with all that it started, wherever that is.
func TestBesideIsLimited(t *testing.T) {
	for want, limit := range map[string]time.Duration{"killed after 2s": 2 * time.Second, "killed, because leaderrun ends": time.Minute} {
		cut := make(chan struct{})
		r := New("/bin/true", []string{"true"})
		file := filepath.Join(t.TempDir(), "pids")
		ended := startHook(r, limit, cut, "trap '' TERM; for i in 1 2 3 4 5 6 7 8 9; do setsid sleep 60 & all=\"$all $!\"; done; echo $$ $all >"+file+".new; mv "+file+".new "+file+"; wait")
		pids := pidsIn(t, file)
		if limit == time.Minute {
			close(cut)
		}
		if got := endOf(t, ended); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
				t.Errorf("process %d of a hook that has returned: %v", pid, err)
			}
		}
	}
}

// pidsIn reads the process ids in a file, once it is there.
func pidsIn(t *testing.T, file string) (pids []int) {
	t.Helper()
	await(t, func() bool { _, err := os.Stat(file); return err == nil })
	for field := range strings.FieldsSeq(must.Read(t, file)) {
		pid, err := strconv.Atoi(field)
		must.Succeed(t, err)
		pids = append(pids, pid)
	}
	return pids
}

// What a hook has left when it ends by itself lives on, in its process group and outside.
func TestLeftByAHook(t *testing.T) {
	r := New("/bin/true", []string{"true"})
	file := filepath.Join(t.TempDir(), "pids")
	if got := endOf(t, startHook(r, time.Minute, nil, "sleep 60 & first=$!; setsid sleep 60 & echo $first $! >"+file+"; exit 4")); got != "exit status 4" {
		t.Errorf("it ended with %q", got)
	}
	for _, pid := range pidsIn(t, file) {
		if _, alive := lives(pid); !alive {
			t.Errorf("process %d was killed", pid)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// What a hook has left is reaped after its end, at the latest by the next hook.
func TestLeftByAHookIsReaped(t *testing.T) {
	r := New("/bin/true", []string{"true"})
	file := filepath.Join(t.TempDir(), "pids")
	endOf(t, startHook(r, time.Minute, nil, "sleep 60 & echo $! >"+file))
	own := exec.Command("true") // as a plugin that prints a login
	must.Succeed(t, own.Start())
	proc.AwaitEnd(own.Process.Pid)
	for _, pid := range pidsIn(t, file) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		proc.AwaitEnd(pid)
		endOf(t, startHook(r, time.Minute, nil, "exit 0"))
		if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
			t.Errorf("process %d of an earlier hook: %v", pid, err)
		}
	}
	must.Succeed(t, own.Wait())
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
	var g guards
	attr := &syscall.ProcAttr{}
	own, err := g.start("/bin/true", []string{"true"}, attr)
	must.Succeed(t, err)
	other, err := syscall.ForkExec("/bin/true", []string{"true"}, attr)
	must.Succeed(t, err)
	g.before = []int{other}
	if !g.spares(own.pid) || !g.spares(other) {
		t.Error("a child that no guard has left is not spared")
	}
	proc.AwaitEnd(own.pid)
	proc.AwaitEnd(other)
	g.reapSome(nil)
	if _, err := syscall.Wait4(other, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("the other child was not reaped: %v", err)
	}
	if g.spares(other) {
		t.Error("an id that may be used again is spared")
	}
	if status, ended := own.reap(); !ended || !status.Exited() {
		t.Errorf("the own child was reaped: %v", status)
	}
	if g.spares(own.pid) {
		t.Error("the id of a guard that has ended is spared")
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

// A guard that runs has not ended, and waiting for it uses no processor time.
func TestGuardIsAwaited(t *testing.T) {
	var g guards
	sleep, err := g.start("/bin/sleep", []string{"sleep", "0.5"}, &syscall.ProcAttr{})
	must.Succeed(t, err)
	if _, ended := sleep.reap(); ended {
		t.Error("a guard that runs has ended")
	}
	used := func() time.Duration {
		var usage syscall.Rusage
		must.Succeed(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	before := used()
	sleep.wait()
	if took := used() - before; took > 100*time.Millisecond {
		t.Errorf("waiting took %s of the processor", took)
	}
}

// A hook whose exec hangs, as on a file system that does not answer, does not delay the kill of a
// dead guard's tree, and its time is over at its limit.
func TestHangingHookDelaysNoKill(t *testing.T) {
	dir := t.TempDir()
	silent := silentfs.Mount(t, dir+"/mnt")
	r, reports, pids := startTree(t)
	ended := make(chan error, 1)
	go func() { ended <- r.RunHook(dir+"/mnt/hook", []string{"hook"}, os.Environ(), 2*time.Second, nil) }()
	<-silent.Asked
	killGuard(r)
	last(t, reports)
	for _, pid := range pids {
		dead(t, pid)
	}
	if got := endOf(t, ended); got != "killed after 2s" {
		t.Errorf("the hook ended with %q", got)
	}
	cut := make(chan struct{})
	close(cut)
	if got := endOf(t, startHook(r, time.Minute, cut, "sleep 60")); got != "killed, because leaderrun ends" {
		t.Errorf("the next one ended with %q", got)
	}
}
