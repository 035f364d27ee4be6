package runner

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/guard"
	"github.com/leaderrun/leaderrun/internal/proc"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// What the runner does to the elector's own process, and how it handles the guard's end.

// An elector that is stopped is continued at kill-by, also if that was moved, and again after it: its
// tree may have stopped it again, until the guard was killed.
func TestElectorIsWoken(t *testing.T) {
	for name, extend := range map[string]bool{"as started": false, "as extended": true} {
		t.Run(name, func(t *testing.T) {
			continued := make(chan os.Signal, 8)
			signal.Notify(continued, syscall.SIGCONT)
			defer signal.Stop(continued)
			killBy := Now() + 500*time.Millisecond
			var r *Runner
			if extend {
				r, _ = start(t, far(), "exec sleep 60")
				r.Extend(killBy)
			} else {
				r, _ = start(t, killBy, "exec sleep 60")
			}
			woken := make(chan struct{})
			go func() {
				for r.alarm.Poll(); Now() < killBy; r.alarm.Poll() { // a signal of Go's runtime ends it, too
				}
				close(woken)
			}()
			select {
			case <-woken:
			case <-time.After(20 * time.Second):
				t.Error("it is not woken")
			}
			for range 2 {
				select {
				case <-continued:
				case <-time.After(20 * time.Second):
					t.Error("it is not continued again")
				}
			}
		})
	}
}

// A process that may not trace the elector cannot give its guard orders.
func TestElectorIsClosedToOthers(t *testing.T) {
	start(t, far(), "exec sleep 60")
	if dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || dumpable != 0 {
		t.Errorf("others may open what it has open: %d, %v", dumpable, err)
	}
}

// The threads exist before the command can use up the process limit. For more processors they would
// not be enough.
func TestThreadsAreReserved(t *testing.T) {
	if cmd := ownProcess(t); cmd != nil {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	r := New("/bin/true", []string{"true"})
	r.Prepare()
	<-r.reserved
	if threads, err := os.ReadDir("/proc/self/task"); len(threads) < 10 {
		t.Errorf("%d threads, %v", len(threads), err)
	}
	if n := runtime.GOMAXPROCS(0); n != 2 {
		t.Errorf("%d processors", n)
	}
	r.Close()
}

// A start waits for the threads.
func TestStartAwaitsThreads(t *testing.T) {
	r := New("/bin/true", []string{"true"})
	r.reserved = make(chan struct{})
	time.AfterFunc(50*time.Millisecond, func() { close(r.reserved) })
	reports := make(chan Report, 8)
	r.Start(far(), far(), nil, "", func(rep Report) { reports <- rep })
	select {
	case <-r.reserved:
	default:
		t.Error("it started before there were threads")
	}
	next(t, reports, Started)
	next(t, reports, Gone)
	r.Close()
}

// The program's file may have been replaced since it started.
func TestReplacedProgramStarts(t *testing.T) {
	if cmd := ownProcess(t); cmd != nil {
		cmd.Path = filepath.Join(t.TempDir(), filepath.Base(cmd.Path))
		must.Succeed(t, os.WriteFile(cmd.Path, []byte(must.Read(t, cmd.Args[0])), 0o755))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	self, err := os.Executable()
	must.Succeed(t, err)
	must.Succeed(t, os.Remove(self))
	_, reports := start(t, far(), "exit 6")
	next(t, reports, Started)
	if gone := next(t, reports, Gone); gone.Status.ExitStatus() != 6 {
		t.Errorf("%+v", gone)
	}
}

// After LetGo a reader of the command's output does not wait for the elector.
func TestLetGo(t *testing.T) {
	if cmd := ownProcess(t); cmd != nil {
		var out, stderr bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("x"), &out, &stderr
		if err := cmd.Run(); err != nil || out.Len() > 0 || stderr.String() != "kept" {
			t.Errorf("%v, stdout %q, stderr %q", err, out.String(), stderr.String())
		}
		return
	}
	LetGo()
	if n, err := os.Stdin.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		t.Errorf("standard input: %d, %v", n, err)
	}
	fmt.Print("let go")
	fmt.Fprint(os.Stderr, "kept")
}

// A guard that has ended leaves no descriptor behind, and after Close no guard is started.
func TestClose(t *testing.T) {
	runs := func() *Runner {
		r := New("/bin/true", []string{"true"})
		r.Prepare()
		r.Close()
		r = New("/bin/true", []string{"true"})
		reports := make(chan Report, 8)
		r.Start(far(), far(), nil, "", func(rep Report) { reports <- rep })
		next(t, reports, Started)
		last(t, reports)
		r.Close()
		isReaped(t, r)
		return r
	}
	r := runs()
	const kept = 2 // descriptors of each runner: the list of children and the alarm
	before := opened()
	runs()
	await(t, func() bool { return opened() <= before+2*kept })
	reports := make(chan Report, 1)
	r.Start(far(), far(), nil, "", func(rep Report) { reports <- rep })
	if failed := next(t, reports, Failed); !errors.Is(failed.Err, os.ErrClosed) {
		t.Errorf("%+v", failed)
	}
}

// At a terminal the command is in the caller's process group, otherwise in its own.
func TestGroupAtATerminal(t *testing.T) {
	if cmd := ownProcess(t); cmd != nil {
		if HasTerminal() {
			t.Error("the tests have a terminal")
		}
		terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
		must.Succeed(t, err)
		defer terminal.Close()
		n, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPTN)
		must.Succeed(t, err)
		must.Succeed(t, unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSPTLCK, 0))
		cmd.Stdin, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
		must.Succeed(t, err)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	HasTerminal() // opens the descriptors that Go keeps
	before := opened()
	if !HasTerminal() || opened() != before {
		t.Error("the terminal is not found, or held open")
	}
	_, reports := start(t, far(), fmt.Sprintf("read -r pid comm state ppid group rest </proc/$$/stat; [ $group = %d ]", syscall.Getpgrp()))
	next(t, reports, Started)
	if gone := last(t, reports); gone.Status != 0 {
		t.Errorf("%+v", gone)
	}
}

// Orders before the first guard are dropped.
func TestOrdersBeforeTheStart(t *testing.T) {
	r := New("/bin/true", []string{"true"})
	r.Extend(far())
	r.Signal(int(syscall.SIGTERM))
	r.SignalRest(int(syscall.SIGTERM))
	r.Leave()
	r.Kill()
	if r.Holds(os.Getpid()) {
		t.Error("it holds its own process")
	}
	r.Close()
}

// Holds is true for the guard and its descendants, and for no other process.
func TestHolds(t *testing.T) {
	r, reports := start(t, far(), "exec sleep 60")
	command := next(t, reports, Started).Pid
	if !r.Holds(command) || !r.Holds(guardOf(r).pid) || r.Holds(os.Getpid()) || r.Holds(1) {
		t.Error("what it holds is not the guard and its tree")
	}
}

// Signal and SignalRest continue a stopped guard.
func TestSignalsContinueTheGuard(t *testing.T) {
	for name, signal := range map[string]func(*Runner, int){"all": (*Runner).Signal, "rest": (*Runner).SignalRest} {
		t.Run(name, func(t *testing.T) {
			up := filepath.Join(t.TempDir(), "up")
			r, reports := start(t, far(), "setsid sh -c 'trap : USR1; : >"+up+"; while :; do sleep 0.01; done' & wait")
			next(t, reports, Started)
			await(t, func() bool { _, err := os.Stat(up); return err == nil })
			r.Signal(int(syscall.SIGUSR1))
			next(t, reports, Ended)
			guard := guardOf(r)
			guard.signal(syscall.SIGSTOP)
			await(t, func() bool { state, _ := lives(guard.pid); return state == "T" })
			signal(r, int(syscall.SIGTERM))
			if gone := next(t, reports, Gone); gone.Err != nil || gone.Status.Signal() != syscall.SIGUSR1 {
				t.Errorf("%+v", gone)
			}
		})
	}
}

// A child that has died is counted, once.
func TestSweepCounts(t *testing.T) {
	r := New("/bin/true", []string{"true"})
	must.Succeed(t, r.prepareProcess())
	out, err := exec.Command("sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!").Output() // an adopted orphan
	must.Succeed(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	must.Succeed(t, err)
	_ = syscall.Kill(pid, syscall.SIGKILL)
	proc.AwaitEnd(pid)
	if met, progress, none := sweepOnce(r.children, 0, &r.guards); len(met) != 1 || !progress || none {
		t.Errorf("met %v, progress %t, none left: %t", met, progress, none)
	}
	if met, progress, none := sweepOnce(r.children, 0, &r.guards); len(met) != 0 || progress || !none {
		t.Errorf("met %v, progress %t, none left: %t", met, progress, none)
	}
}

// The guard's exit status tells whether something may have been started.
func TestGuardEnds(t *testing.T) {
	for _, test := range []struct {
		started bool
		status  int
		want    Report
		err     string
	}{
		{false, guard.Refused, Report{Kind: Failed}, ErrGuard.Error() + ": " + ErrRefused.Error()},
		{false, 3, Report{Kind: Gone}, "the guard process died before it reported a start: exit status 3"},
		{true, guard.Refused, Report{Kind: Gone}, fmt.Sprintf("the guard process died: exit status %d", guard.Refused)},
	} {
		r := New("/bin/true", []string{"true"})
		must.Succeed(t, r.prepareProcess())
		script := fmt.Sprintf("exit %d", test.status)
		process, err := r.guards.start("/bin/sh", []string{"sh", "-c", script}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setpgid: true}})
		must.Succeed(t, err)
		h := &guarded{guard: process, children: r.children}
		if test.started {
			h.pid = process.pid
		}
		var got Report
		h.guardDied(func(report Report) { got = report })
		if got.Kind != test.want.Kind || got.Err == nil || got.Err.Error() != test.err || errors.Is(got.Err, ErrRefused) != (got.Kind == Failed) {
			t.Errorf("%+v: %+v", test, got)
		}
	}
}

// A process that has ended needs no reason why it lives; for any other the reason is named.
func TestWhyAlive(t *testing.T) {
	for _, test := range []struct {
		stat string
		err  error
		want string
	}{
		{"", syscall.ESRCH, ""}, {"7 (sh) Z 1 7", nil, ""}, {"7 (sh) X 1 7", nil, ""}, {"7 (a) Z b) S 1 7", nil, "state S"},
		{"7 (sh) D 1 7", nil, "in uninterruptible sleep, D"}, {"7 (sh) D 1 7", syscall.EPERM, "another user's, EPERM"},
	} {
		if got := whyAlive(test.stat, test.err); got != test.want {
			t.Errorf("%q, %v: %q, want %q", test.stat, test.err, got, test.want)
		}
	}
}

// The first process that lives is named, a second after its SIGKILL. The check does not harm
// it.
func TestUnkillable(t *testing.T) {
	sleep := exec.Command("sleep", "60")
	ended := exec.Command("true")
	must.Succeed(t, errors.Join(sleep.Start(), ended.Start(), ended.Wait()))
	var got []Report
	h := &guarded{report: func(r Report) { got = append(got, r) }}
	await(t, func() bool { return nameOf(sleep.Process.Pid) == "sleep" })
	h.reportUnkillable([]int{ended.Process.Pid, sleep.Process.Pid, sleep.Process.Pid})
	if want := fmt.Sprintf("process %d (sleep): state ", sleep.Process.Pid); len(got) != 1 || got[0].Kind != Unkillable || !strings.HasPrefix(got[0].Left, want) {
		t.Errorf("%+v, want one %s", got, want)
	}
	(&guarded{}).reportUnkillable([]int{sleep.Process.Pid}) // nothing was started
	_ = sleep.Process.Kill()
	_ = sleep.Wait()
	if status := sleep.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Errorf("it died of %s", status.Signal())
	}
}
