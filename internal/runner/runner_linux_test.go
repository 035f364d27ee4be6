package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/guard"
	"github.com/leaderrun/leaderrun/internal/proc"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/silentfs"
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

func TestLeftoversAreSignalled(t *testing.T) {
	r, reports := start(t, far(), "setsid sleep 60 & exit 4")
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
