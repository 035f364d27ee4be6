package runner

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/guard"
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
			woken := make(chan time.Duration, 1)
			go func() { r.alarm.Poll(); woken <- Now() }()
			select {
			case at := <-woken:
				if at < killBy {
					t.Errorf("%s before kill-by", killBy-at)
				}
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
		pid, err := r.helpers.start("/bin/sh", []string{"sh", "-c", script}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setpgid: true}})
		must.Succeed(t, err)
		h := &guarded{guard: &process{pid: pid, own: &r.helpers}, children: r.children, helpers: &r.helpers}
		if test.started {
			h.pid = pid
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
