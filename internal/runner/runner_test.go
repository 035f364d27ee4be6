package runner

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/leaderrun/leaderrun/internal/early" // this test binary can also be the guard
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// TestMain gives up the terminal from which the tests may be run: with one, a command would
// stay in the process group of the tests.
func TestMain(m *testing.M) {
	_, _ = syscall.Setsid() // it only fails for the leader of a process group
	os.Exit(m.Run())
}

// start runs a shell script under a guard and returns its reports.
func start(t *testing.T, killBy time.Duration, script string) (*Runner, <-chan Report) {
	t.Helper()
	r := New("/bin/sh", []string{"sh", "-c", script})
	reports := make(chan Report, 8)
	r.Start(killBy, killBy, append(os.Environ(), "DIR="+t.TempDir()), "", func(rep Report) { reports <- rep })
	t.Cleanup(func() { r.Kill(); r.Close() })
	return r, reports
}

// guardOf is the runner's guard.
func guardOf(r *Runner) *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current.guard
}

// isReaped asserts that the runner will not signal its guard any more: the guard's id may
// belong to another process by now.
func isReaped(t *testing.T, r *Runner) {
	t.Helper()
	if guard := guardOf(r); r.guards.has(guard.pid) {
		t.Errorf("the guard %d counts as alive", guard.pid)
	}
}

func far() time.Duration { return Now() + time.Minute }

// next is the next report, which must be of that kind.
func next(t *testing.T, reports <-chan Report, kind Kind) Report {
	t.Helper()
	select {
	case r := <-reports:
		if r.Kind != kind {
			t.Fatalf("report %+v, want kind %d", r, kind)
		}
		return r
	case <-time.After(20 * time.Second):
		t.Fatalf("no report within 20 s, want kind %d", kind)
		panic("unreachable")
	}
}

// last is the last report. The command may end before its descendants do.
func last(t *testing.T, reports <-chan Report) Report {
	t.Helper()
	select {
	case r := <-reports:
		if r.Kind == Ended {
			return next(t, reports, Gone)
		}
		if r.Kind == Gone {
			return r
		}
		t.Fatalf("report %+v, want the last one", r)
	case <-time.After(20 * time.Second):
		t.Fatal("no report within 20 s")
	}
	panic("unreachable")
}

func await(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within 20 s")
		}
	}
}

func TestExitStatus(t *testing.T) {
	for _, test := range []struct {
		script       string
		code, signal int
	}{
		{"exit 0", 0, 0}, {"exit 3", 3, 0}, {"exit 255", 255, 0},
		{"kill -SEGV $$", 0, 11}, {"kill -KILL $$", 0, 9}, {"kill -TERM $$", 0, 15}, {"kill -USR1 $$", 0, int(syscall.SIGUSR1)},
	} {
		t.Run(test.script, func(t *testing.T) {
			_, reports := start(t, far(), test.script)
			next(t, reports, Started)
			gone := next(t, reports, Gone)
			if test.signal != 0 {
				if !gone.Status.Signaled() || int(gone.Status.Signal()) != test.signal {
					t.Errorf("status %v, want signal %d", gone.Status, test.signal)
				}
			} else if !gone.Status.Exited() || gone.Status.ExitStatus() != test.code {
				t.Errorf("status %v, want exit %d", gone.Status, test.code)
			}
		})
	}
}

func TestNotExecutable(t *testing.T) {
	for path, want := range map[string]error{"/nonexistent": syscall.ENOENT, "/etc/passwd": syscall.EACCES} {
		r := New(path, []string{path})
		reports := make(chan Report, 1)
		r.Start(far(), far(), nil, "", func(rep Report) { reports <- rep })
		if rep := next(t, reports, Failed); !errors.Is(rep.Err, want) {
			t.Errorf("%s: %v, want %v", path, rep.Err, want)
		}
		r.Close()
		isReaped(t, r)
	}
}

// With too few file descriptors for leaderrun or its guard there is an error, nothing runs, and no
// descriptor is left open. With one more the command runs.
func TestNoDescriptors(t *testing.T) {
	limit, usual := descriptors(t)
	const few, enough = 3, 1024 // each runner of the tests before keeps two
	const kept = 2              // the list of children and the alarm
	before := opened()
	mark := filepath.Join(t.TempDir(), "ran")
	r := New("/bin/sh", []string{"sh", "-c", ": >" + mark})
	defer r.Close()
	for n := uint64(few); n < enough; n++ {
		reports := make(chan Report, 8)
		limit(n)
		r.Start(far(), far(), nil, "", func(rep Report) { reports <- rep })
		rep := <-reports
		limit(usual)
		if rep.Kind == Started {
			if gone := last(t, reports); gone.Status.ExitStatus() != 0 || n == few {
				t.Errorf("with %d descriptors: %+v", n, gone)
			}
			return
		}
		if _, err := os.Stat(mark); err == nil || rep.Kind != Failed || !errors.Is(rep.Err, ErrGuard) || !errors.Is(rep.Err, syscall.EMFILE) {
			t.Errorf("with %d descriptors: %+v, the command ran: %t", n, rep, err == nil)
		}
		if after := opened(); after > before+kept {
			t.Errorf("with %d descriptors: %d are open, and %d were", n, after, before)
		}
	}
	t.Errorf("nothing started with %d descriptors", enough)
}

// opened returns the number of this process's descriptors.
func opened() int { all, _ := os.ReadDir("/dev/fd"); return len(all) }

// descriptors returns a function that limits their number until the end of the test, and the
// usual number.
func descriptors(t *testing.T) (limit func(n uint64), usual uint64) {
	var was syscall.Rlimit
	must.Succeed(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was))
	limit = func(n uint64) {
		must.Succeed(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: was.Max}))
	}
	t.Cleanup(func() { limit(was.Cur) })
	return limit, was.Cur
}

func TestNothingStartsAfterStartBy(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "ran")
	r := New("/bin/sh", []string{"sh", "-c", "touch " + mark})
	defer r.Close()
	reports := make(chan Report, 8)
	r.Start(Now(), far(), os.Environ(), "", func(rep Report) { reports <- rep })
	if rep := next(t, reports, Failed); !errors.Is(rep.Err, syscall.ETIMEDOUT) {
		t.Errorf("%v", rep.Err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the command ran")
	}
}

// startTree starts the tree and returns its process ids once it is complete.
func startTree(t *testing.T) (*Runner, <-chan Report, []int) {
	t.Helper()
	r, reports, pids := startTreeUntil(t, far())
	if pids == nil {
		t.Fatal("the tree is not complete")
	}
	return r, reports, pids
}

// startTreeBriefly is startTree with a kill-by that is soon: later if the machine is too busy
// to start the tree before it.
func startTreeBriefly(t *testing.T) (r *Runner, reports <-chan Report, pids []int, killBy time.Duration) {
	t.Helper()
	for life := 500 * time.Millisecond; life < 20*time.Second; life *= 2 {
		killBy = Now() + life
		if r, reports, pids = startTreeUntil(t, killBy); pids != nil && Now() < killBy-life/2 {
			return r, reports, pids, killBy
		}
	}
	t.Fatal("no tree is complete before its kill-by")
	panic("unreachable")
}

// startTreeUntil returns no ids if the tree is not complete before kill-by.
func startTreeUntil(t *testing.T, killBy time.Duration) (*Runner, <-chan Report, []int) {
	t.Helper()
	out, err := os.CreateTemp(t.TempDir(), "pids")
	must.Succeed(t, err)
	defer out.Close()
	r := New("/bin/sh", []string{"sh", "-c", "exec >" + out.Name() + "\n" + tree})
	reports := make(chan Report, 8)
	r.Start(far(), killBy, os.Environ(), "", func(rep Report) { reports <- rep })
	t.Cleanup(func() { r.Kill(); r.Close() })
	pids := []int{next(t, reports, Started).Pid}
	for ; Now() < killBy; time.Sleep(5 * time.Millisecond) {
		b, _ := os.ReadFile(out.Name())
		lines := bufio.NewScanner(strings.NewReader(string(b)))
		found, ready := pids[:1:1], false
		for lines.Scan() {
			if n, err := strconv.Atoi(lines.Text()); err == nil {
				found = append(found, n)
			} else {
				ready = true
			}
		}
		if ready && len(found) == 5 {
			return r, reports, found
		}
	}
	return r, reports, nil
}

func TestTreeIsDead(t *testing.T) {
	for name, hit := range map[string]func(*Runner){
		"kill":           func(r *Runner) { r.Kill() },
		"deadline":       nil,
		"deadline moved": func(r *Runner) { r.Extend(Now() + 50*time.Millisecond) },
		"elector gone":   func(r *Runner) { r.current.orders.file.Close() },
		"guard killed":   func(r *Runner) { guardOf(r).signal(syscall.SIGKILL) },
		"guard stopped":  func(r *Runner) { guardOf(r).signal(syscall.SIGSTOP); r.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			var reports <-chan Report
			var pids []int
			if hit == nil {
				_, reports, pids, _ = startTreeBriefly(t)
			} else {
				var r *Runner
				r, reports, pids = startTree(t)
				hit(r)
			}
			rep := last(t, reports)
			for _, pid := range pids {
				dead(t, pid)
			}
			switch name {
			case "guard killed":
				if rep.Err == nil || rep.Err.Error() != "the guard process died: killed" {
					t.Errorf("report %+v without the guard's death", rep)
				}
			case "deadline", "deadline moved", "elector gone":
				if rep.Err != nil {
					t.Errorf("report %+v: the guard did not kill", rep)
				}
			}
		})
	}
}

func TestSignalReachesTheGroup(t *testing.T) {
	heard := filepath.Join(t.TempDir(), "heard")
	script := `trap "echo command >>` + heard + `; wait; exit 7" USR1
		sh -c 'trap "echo worker >>` + heard + `; exit" USR1; echo up >>` + heard + `; while :; do sleep 0.01; done' & wait`
	r, reports := start(t, far(), script)
	next(t, reports, Started)
	content := func() string { b, _ := os.ReadFile(heard); return string(b) }
	await(t, func() bool { return content() == "up\n" })
	r.Signal(int(syscall.SIGUSR1))
	if gone := last(t, reports); gone.Status.ExitStatus() != 7 {
		t.Errorf("%+v", gone)
	}
	if got := content(); got != "up\ncommand\nworker\n" && got != "up\nworker\ncommand\n" {
		t.Errorf("heard: %q", got)
	}
}

func TestGuardSurvivesSignals(t *testing.T) {
	r, reports := start(t, far(), "while [ ! -e $DIR/end ]; do sleep 0.01; done; exit 5")
	next(t, reports, Started)
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM} {
		guardOf(r).signal(sig)
	}
	r.Signal(int(syscall.SIGALRM))
	if gone := last(t, reports); !gone.Status.Signaled() || gone.Status.Signal() != syscall.SIGALRM {
		t.Errorf("the command ended with %v", gone.Status)
	}
}

func TestPreparedGuard(t *testing.T) {
	r := New("/bin/sh", []string{"sh", "-c", "exit 6"})
	r.Prepare()
	prepared := guardOf(r).pid
	reports := make(chan Report, 8)
	r.Start(far(), far(), nil, "", func(rep Report) { reports <- rep })
	if guardOf(r).pid != prepared {
		t.Error("the prepared guard was not used")
	}
	next(t, reports, Started)
	if gone := next(t, reports, Gone); gone.Status.ExitStatus() != 6 {
		t.Errorf("%+v", gone)
	}
	r.Close()
	isReaped(t, r)

	idle := New("/bin/true", []string{"true"})
	idle.Prepare()
	pid := guardOf(idle).pid
	idle.Close()
	dead(t, pid)
}

// An environment that is larger than a pipe arrives whole.
func TestLargeEnvironment(t *testing.T) {
	env := []string{"PATH=" + os.Getenv("PATH")}
	for i := range 10 {
		env = append(env, fmt.Sprintf("BIG%d=%s", i, strings.Repeat("x", 100_000)))
	}
	r := New("/bin/sh", []string{"sh", "-c", "[ ${#BIG9} = 100000 ]"})
	reports := make(chan Report, 8)
	r.Start(far(), far(), env, "", func(rep Report) { reports <- rep })
	defer r.Close()
	next(t, reports, Started)
	if gone := next(t, reports, Gone); gone.Status.ExitStatus() != 0 {
		t.Errorf("%+v", gone)
	}
}

// A guard that waits for its command may be signalled.
func TestPreparedGuardIsHit(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP} {
		t.Run(name+", then closed", func(t *testing.T) {
			r := New("/bin/true", []string{"true"})
			r.Prepare()
			guardOf(r).signal(sig)
			r.Close() // returns
		})
	}
}
