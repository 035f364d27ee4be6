package runner

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/leaderrun/leaderrun/internal/early" // this test binary is the guard, too
	"github.com/leaderrun/leaderrun/internal/proc"
)

// start runs a shell script under a guard and returns what it tells.
func start(t *testing.T, killBy time.Duration, script string) (*Runner, <-chan Report) {
	t.Helper()
	r := New("/bin/sh", []string{"sh", "-c", script})
	reports := make(chan Report, 8)
	r.Start(killBy, append(os.Environ(), "DIR="+t.TempDir()), func(rep Report) { reports <- rep })
	t.Cleanup(func() { r.Kill(); r.Close() })
	return r, reports
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

// dead fails the test if the process lives; a zombie is dead.
func dead(t *testing.T, pid int) {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if fields[0] != "Z" && fields[0] != "X" {
		t.Errorf("process %d lives, state %s", pid, fields[0])
	}
}

func TestExitStatus(t *testing.T) {
	for _, test := range []struct {
		script       string
		code, signal int
	}{
		{"exit 0", 0, 0}, {"exit 3", 3, 0}, {"exit 255", 255, 0},
		{"kill -SEGV $$", 0, 11}, {"kill -KILL $$", 0, 9}, {"kill -TERM $$", 0, 15},
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
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no program\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{"/nonexistent": syscall.ENOENT, "/etc/passwd": syscall.EACCES, text: syscall.ENOEXEC} {
		r := New(path, []string{path})
		reports := make(chan Report, 1)
		r.Start(far(), nil, func(rep Report) { reports <- rep })
		if rep := next(t, reports, Failed); !errors.Is(rep.Err, want) {
			t.Errorf("%s: %v, want %v", path, rep.Err, want)
		}
		r.Close()
	}
}

func TestNothingStartsAfterKillBy(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "ran")
	_, reports := start(t, Now(), "touch "+mark)
	if rep := next(t, reports, Failed); !errors.Is(rep.Err, syscall.ETIMEDOUT) {
		t.Errorf("%v", rep.Err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the command ran")
	}
}

// tree is a script that leaves processes at every distance and writes their
// process ids to a pipe that it inherits as its standard output.
const tree = `
trap '' TERM
(trap '' TERM; echo $BASHPID; sleep 61) &
setsid sh -c 'trap "" TERM; echo $$; sleep 62 & echo $!; wait' &
sh -c '(setsid sh -c "echo \$\$; sleep 63" &) ; exit 0'
sleep 64 | sleep 65 &
echo ready
wait
`

// startTree starts the tree and returns its process ids once it is complete.
func startTree(t *testing.T, killBy time.Duration) (*Runner, <-chan Report, []int) {
	t.Helper()
	out, err := os.CreateTemp(t.TempDir(), "pids")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	r := New("/bin/bash", []string{"bash", "-c", "exec >" + out.Name() + "\n" + tree})
	reports := make(chan Report, 8)
	r.Start(killBy, os.Environ(), func(rep Report) { reports <- rep })
	t.Cleanup(func() { r.Kill(); r.Close() })
	pids := []int{next(t, reports, Started).Pid}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
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
		if time.Now().After(deadline) {
			t.Fatalf("the tree is not complete: %q", b)
		}
	}
}

func TestTreeIsDead(t *testing.T) {
	soon := 3 * time.Second // long enough for the tree to stand
	for name, test := range map[string]struct {
		killBy time.Duration
		hit    func(*Runner)
	}{
		"kill":              {time.Minute, func(r *Runner) { r.Kill() }},
		"deadline":          {soon, func(*Runner) {}},
		"deadline moved":    {time.Minute, func(r *Runner) { r.Extend(Now() + 50*time.Millisecond) }},
		"elector gone":      {time.Minute, func(r *Runner) { r.now.orders.file.Close() }},
		"guard killed":      {time.Minute, func(r *Runner) { r.now.guard.signal(syscall.SIGKILL) }},
		"guard stopped":     {time.Minute, func(r *Runner) { r.now.guard.signal(syscall.SIGSTOP); r.Kill() }},
		"stopped, deadline": {soon, func(r *Runner) { r.now.guard.signal(syscall.SIGSTOP) }},
	} {
		t.Run(name, func(t *testing.T) {
			r, reports, pids := startTree(t, Now()+test.killBy)
			test.hit(r)
			rep := last(t, reports)
			for _, pid := range pids {
				dead(t, pid)
			}
			if name == "guard killed" && rep.Err == nil {
				t.Errorf("told %+v: the guard's death is not told", rep)
			}
		})
	}
}

func TestLeftoversAreTold(t *testing.T) {
	r, reports := start(t, far(), "setsid sleep 60 & exit 4")
	next(t, reports, Started)
	if ended := next(t, reports, Ended); ended.Status.ExitStatus() != 4 {
		t.Errorf("%+v", ended)
	}
	r.Signal(15)
	if gone := next(t, reports, Gone); gone.Status.ExitStatus() != 4 {
		t.Errorf("%+v", gone)
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
	sweep(nil)
}

func TestGuardSurvivesSignals(t *testing.T) {
	r, reports := start(t, far(), "while [ ! -e $DIR/end ]; do sleep 0.01; done; exit 5")
	next(t, reports, Started)
	for _, sig := range []syscall.Signal{1, 2, 3, 10, 12, 15} {
		r.now.guard.signal(sig)
	}
	r.Signal(15)
	if gone := last(t, reports); !gone.Status.Signaled() || gone.Status.Signal() != syscall.SIGTERM {
		t.Errorf("the command ended with %v", gone.Status)
	}
}

func TestPreparedGuard(t *testing.T) {
	r := New("/bin/sh", []string{"sh", "-c", "exit 6"})
	r.Prepare()
	prepared := r.now.guard.pid
	reports := make(chan Report, 8)
	r.Start(far(), nil, func(rep Report) { reports <- rep })
	if r.now.guard.pid != prepared {
		t.Error("the prepared guard was not used")
	}
	next(t, reports, Started)
	if gone := next(t, reports, Gone); gone.Status.ExitStatus() != 6 {
		t.Errorf("%+v", gone)
	}
	r.Close()

	idle := New("/bin/true", []string{"true"})
	idle.Prepare()
	pid := idle.now.guard.pid
	idle.Close()
	dead(t, pid)
}

// An environment that no pipe holds at once arrives whole.
func TestLargeEnvironment(t *testing.T) {
	env := []string{"PATH=" + os.Getenv("PATH")}
	for i := range 10 {
		env = append(env, fmt.Sprintf("BIG%d=%s", i, strings.Repeat("x", 100_000)))
	}
	r := New("/bin/sh", []string{"sh", "-c", "[ ${#BIG9} = 100000 ]"})
	reports := make(chan Report, 8)
	r.Start(far(), env, func(rep Report) { reports <- rep })
	defer r.Close()
	next(t, reports, Started)
	if gone := next(t, reports, Gone); gone.Status.ExitStatus() != 0 {
		t.Errorf("%+v", gone)
	}
}

// A guard that waits for its command may meet anything meanwhile.
func TestPreparedGuardIsHit(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP} {
		t.Run(name+", then closed", func(t *testing.T) {
			r := New("/bin/true", []string{"true"})
			r.Prepare()
			r.now.guard.signal(sig)
			r.Close() // returns
		})
	}
	t.Run("killed, then needed", func(t *testing.T) {
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
	})
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
	r.Signal(15)
	next(t, reports, Ended)
	r.Signal(15)
	await(t, func() bool { return content() != "up\n" })
	if err := os.WriteFile(heard+".end", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	next(t, reports, Gone)
	if content() != "up\nTERM\n" {
		t.Errorf("the worker heard %q", content())
	}
}

func await(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within 20 s")
		}
	}
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
