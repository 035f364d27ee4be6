package runner

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

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
