package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/guard"
	"github.com/leaderrun/leaderrun/internal/proc"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/silentfs"
	"golang.org/x/sys/unix"
)

// The kernel continues a stopped guard at kill-by.
func TestStoppedGuardIsWoken(t *testing.T) {
	r, reports, pids, _ := startTreeBriefly(t)
	guardOf(r).signal(syscall.SIGSTOP)
	if gone := last(t, reports); !gone.Expired {
		t.Errorf("%+v", gone)
	}
	for _, pid := range pids {
		dead(t, pid)
	}
}

// A guard that is stopped again each time the kernel has continued it kills as soon as nobody
// stops it any more.
func TestGuardStoppedAgainIsWokenAgain(t *testing.T) {
	r, reports, pids, killBy := startTreeBriefly(t)
	for Now() < killBy+200*time.Millisecond {
		r.current.guard.signal(syscall.SIGSTOP)
	}
	last(t, reports)
	for _, pid := range pids {
		dead(t, pid)
	}
}

// A guard that is killed before it reported a start may have started the command.
func TestGuardKilledBeforeReport(t *testing.T) {
	r := New("/bin/true", []string{"true"})
	r.Prepare()
	guardOf(r).signal(syscall.SIGSTOP)
	reports := make(chan Report, 8)
	alive := r.guards.pids
	r.guards.pids = nil // so that the start does not continue it
	r.Start(far(), far(), nil, "", func(rep Report) { reports <- rep })
	r.guards.pids = alive
	guardOf(r).signal(syscall.SIGKILL)
	if gone := next(t, reports, Gone); gone.Err == nil || gone.Err.Error() != "the guard process died before it reported a start: killed" {
		t.Errorf("%+v", gone)
	}
}

// killGuard kills the guard and returns its id when it has ended.
func killGuard(r *Runner) (pid int) {
	guard := guardOf(r)
	guard.signal(syscall.SIGKILL)
	proc.AwaitEnd(guard.pid)
	return guard.pid
}

// A prepared guard that has died is replaced.
func TestPreparedGuardIsReplaced(t *testing.T) {
	r := New("/bin/sh", []string{"sh", "-c", "exit 6"})
	r.Prepare()
	r.mu.Lock() // nobody hears of its death before the start
	died := r.current.guard.pid
	r.current.guard.signal(syscall.SIGKILL)
	proc.AwaitEnd(died)
	_, err := r.prepared()
	r.mu.Unlock()
	must.Succeed(t, err)
	reports := make(chan Report, 8)
	r.Start(far(), far(), nil, "", func(rep Report) { reports <- rep })
	defer r.Close()
	next(t, reports, Started)
	if gone := next(t, reports, Gone); gone.Status.ExitStatus() != 6 {
		t.Errorf("%+v", gone)
	}
	if err := syscall.Kill(died, 0); err != syscall.ESRCH {
		t.Errorf("the dead guard is not reaped: %v", err)
	}
}

// It is replaced even if nothing is started, and leaves no zombie.
func TestPreparedGuardIsReplacedBeforeTheStart(t *testing.T) {
	r := New("/bin/true", []string{"true"})
	defer r.Close()
	r.Prepare()
	died := killGuard(r)
	await(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.current != nil && r.current.guard.pid != died
	})
	if err := syscall.Kill(died, 0); err != syscall.ESRCH {
		t.Errorf("the dead guard is not reaped: %v", err)
	}
}

// The start continues a prepared guard that was stopped: it has no alarm yet that would.
func TestStoppedPreparedGuardStarts(t *testing.T) {
	r := New("/bin/sh", []string{"sh", "-c", "exit 6"})
	r.Prepare()
	guardOf(r).signal(syscall.SIGSTOP)
	await(t, func() bool { state, _ := lives(guardOf(r).pid); return state == "T" })
	reports := make(chan Report, 8)
	r.Start(far(), far(), nil, "", func(rep Report) { reports <- rep })
	t.Cleanup(func() { r.Kill(); r.Close() })
	next(t, reports, Started)
	if gone := next(t, reports, Gone); gone.Status.ExitStatus() != 6 {
		t.Errorf("%+v", gone)
	}
}

// A renewal continues a guard that was stopped before it read its first order: it has no alarm
// yet that would.
func TestExtendContinuesTheGuard(t *testing.T) {
	r, reports := start(t, far(), "exec sleep 60")
	next(t, reports, Started)
	guard := guardOf(r)
	guard.signal(syscall.SIGSTOP)
	await(t, func() bool { state, _ := lives(guard.pid); return state == "T" })
	r.Extend(far())
	await(t, func() bool { state, _ := lives(guard.pid); return state != "T" })
}

// If the system cannot start another guard, Start reports that, and the old guard's pipes are
// closed once.
func TestPreparedGuardIsNotReplaced(t *testing.T) {
	limit, usual := descriptors(t)
	r := New("/bin/true", []string{"true"})
	r.Prepare()
	killGuard(r)
	reports := make(chan Report, 8)
	limit(3)
	r.Start(far(), far(), nil, "", func(rep Report) { reports <- rep })
	limit(usual)
	if failed := next(t, reports, Failed); !errors.Is(failed.Err, ErrGuard) {
		t.Errorf("%+v", failed)
	}
	r.Start(far(), far(), nil, "", func(rep Report) { reports <- rep }) // now it has
	next(t, reports, Started)
	last(t, reports)
	r.Close()
}

func asGuard(cmd *exec.Cmd) *process {
	return &process{pid: cmd.Process.Pid, own: &guards{pids: []int{cmd.Process.Pid}}}
}

// A guard that was stopped is continued. One that answers is not killed, however long its work
// takes; one that does not answer is.
func TestOnlyASilentGuardIsKilled(t *testing.T) {
	sleep := exec.Command("sleep", "60")
	must.Succeed(t, sleep.Start())
	silent := asGuard(sleep)
	theirs, ours, err := os.Pipe()
	must.Succeed(t, err)
	silent.signal(syscall.SIGSTOP)
	await(t, func() bool { state, _ := lives(silent.pid); return state == "T" })
	h := &guarded{guard: silent, over: make(chan struct{}), orders: outbox{file: ours, filled: make(chan struct{}, 1)}}
	go h.orders.drain(h.over)
	go h.killTree()
	order := make([]byte, 16)
	must.Succeed(t, theirs.SetReadDeadline(time.Now().Add(20*time.Second)))
	for i := range 4 {
		if _, err := io.ReadFull(theirs, order); err != nil {
			t.Fatal(err)
		}
		if state, ok := lives(silent.pid); !ok {
			t.Fatal("a guard that answers was killed")
		} else if i > 0 && state == "T" {
			t.Error("a stopped guard was not continued")
		}
		h.heard.Store(true)
	}
	if status := silent.wait(); !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Errorf("a guard that does not answer ended with %v", status)
	}
	close(h.over)
}

// The children of a silent guard die, also if the guard itself does not. Then the guard is named.
func TestUnkillableGuard(t *testing.T) {
	dir := t.TempDir()
	silent := silentfs.Mount(t, dir+"/mnt")
	unkillable := exec.Command("sh", "-c", "sleep 60 & echo $! >child; exec stat mnt/file")
	unkillable.Dir = dir
	must.Succeed(t, unkillable.Start())
	<-silent.Asked
	child, err := strconv.Atoi(strings.TrimSpace(must.Read(t, dir+"/child")))
	must.Succeed(t, err)
	reports := make(chan Report, 1)
	h := &guarded{guard: asGuard(unkillable), over: make(chan struct{}),
		orders: outbox{filled: make(chan struct{}, 1)}, report: func(r Report) { reports <- r }}
	killed := make(chan struct{})
	go func() { h.killTree(); close(killed) }()
	await(t, func() bool { _, alive := lives(child); return !alive })
	await(t, func() bool { state, _ := lives(h.guard.pid); return state == "D" })
	want := fmt.Sprintf("process %d (stat): in uninterruptible sleep, D", h.guard.pid)
	if r := next(t, reports, Unkillable); r.Left != want {
		t.Errorf("%q, want %q", r.Left, want)
	}
	silent.End()
	h.guard.wait()
	<-killed
}

// With root all threads of the guard have a high priority, and none of the command's has.
func TestGuardGoesFirst(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may go before others")
	}
	r, reports := start(t, far(), "sleep 60")
	command := next(t, reports, Started).Pid
	nice := func(pid int) (all []string) {
		stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, stat := range stats {
			b, _ := os.ReadFile(stat)
			fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
			all = append(all, fields[16])
		}
		return all
	}
	await(t, func() bool {
		all := nice(r.current.guard.pid)
		return len(all) > 1 && !slices.ContainsFunc(all, func(nice string) bool { return nice != "-20" })
	})
	if all := nice(command); slices.Contains(all, "-20") {
		t.Errorf("the command goes first, too: %v", all)
	}
}

// Neither pkill nor pkill -f finds the guard by the elector's name, and the command does not
// get the variables of the guard's runtime.
func TestGuardIsOfItsOwn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "environment")
	r, reports := start(t, far(), "env >"+file+".new; mv "+file+".new "+file+"; sleep 60")
	next(t, reports, Started)
	if guard := guardOf(r).pid; !r.current.heard.Load() {
		t.Error("its report is not heard")
	} else if session, err := unix.Getsid(guard); session != guard {
		t.Errorf("it is in the session %d, where a terminal's signals reach it: %v", session, err)
	}
	for _, name := range []string{"comm", "cmdline"} {
		got, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", r.current.guard.pid, name))
		if err != nil || strings.Trim(string(got), "\x00\n") != guard.Name || strings.Contains(guard.Name, "leaderrun") {
			t.Errorf("%s of the guard: %q (%v)", name, got, err)
		}
	}
	await(t, func() bool { _, err := os.Stat(file); return err == nil })
	got := must.Read(t, file)
	for _, setting := range guard.Settings {
		if strings.Contains(got, setting) {
			t.Errorf("%s reached the command", setting)
		}
	}
}
