package proc

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// Now uses the clock that goes on while the machine sleeps: in a time namespace where only
// that clock is a day ahead, Now is a day ahead.
func TestClockCountsSleep(t *testing.T) {
	const asked = "PROC_TEST_CLOCK"
	if os.Getenv(asked) != "" {
		fmt.Println(Now())
		os.Exit(0)
	}
	slept := []string{"--map-root-user", "--time", "--boottime", "86400", "--fork"}
	if err := exec.Command("unshare", append(slept, "true")...).Run(); err != nil {
		t.Skipf("this machine allows no namespaces: %v", err)
	}
	cmd := exec.Command("unshare", append(slept, os.Args[0], "-test.run=^"+t.Name()+"$")...)
	cmd.Env = append(os.Environ(), asked+"=1")
	out, err := cmd.Output()
	must.Succeed(t, err)
	there, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	must.Succeed(t, err)
	const day, patience = 24 * time.Hour, time.Minute
	if ahead := time.Duration(there - Now()); (ahead - day).Abs() > patience {
		t.Errorf("the clock is %s ahead where the machine has slept for %s", ahead, day)
	}
}

// Children are found by the kernel's list, and by reading all of /proc.
func TestChildrenAreFoundBothWays(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	must.Succeed(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	for name, list := range map[string]func(int) ([]int, bool){"children": ChildrenOf, "stat": childrenByParent} {
		if got, all := list(os.Getpid()); !all || !slices.Contains(got, cmd.Process.Pid) {
			t.Errorf("%s: %v (all: %t) lacks %d", name, got, all, cmd.Process.Pid)
		}
	}
	if got, all := ChildrenOf(cmd.Process.Pid); !all || len(got) != 0 {
		t.Errorf("children of a childless process: %v (all: %t)", got, all)
	}
}

// ofThread lists the children that this test starts, on a thread that it has to itself.
func ofThread(t *testing.T) *Children {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	children, err := childrenOfThread(syscall.Gettid())
	must.Succeed(t, err)
	return children
}

// One round kills a whole group, and no child that is to be spared.
func TestKillReachesGroups(t *testing.T) {
	children := ofThread(t)
	shell := func(script string) (cmd *exec.Cmd, out io.ReadCloser) {
		cmd = exec.Command("sh", "-c", script)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		out, err := cmd.StdoutPipe()
		must.Succeed(t, err)
		must.Succeed(t, cmd.Start())
		t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })
		if _, err := io.ReadFull(out, make([]byte, len("up\n"))); err != nil {
			t.Fatal(err)
		}
		return cmd, out
	}
	first, group := shell("sleep 60 & echo up; wait")
	spared, _ := shell("echo up; exec sleep 60")
	// A member of a group whose leader is gone.
	leader := exec.Command("true")
	leader.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must.Succeed(t, leader.Start())
	follow := exec.Command("sh", "-c", "sleep 60 & echo up; wait")
	follow.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: leader.Process.Pid}
	rest, err := follow.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, follow.Start())
	t.Cleanup(func() { _ = follow.Process.Kill(); _ = follow.Wait() })
	if _, err := io.ReadFull(rest, make([]byte, len("up\n"))); err != nil {
		t.Fatal(err)
	}
	_ = leader.Wait()

	round := children.Kill(leader.Process.Pid, func(pid int) bool { return pid == spared.Process.Pid })
	if want := []int{follow.Process.Pid, first.Process.Pid}; !round.All || !round.Came || !slices.Equal(round.Met, want) {
		t.Errorf("%+v, want the newest first: %v", round, want)
	}
	for _, out := range []io.ReadCloser{group, rest} { // each ends with its last writer
		must.Succeed(t, out.(*os.File).SetReadDeadline(time.Now().Add(20*time.Second)))
		if _, err := io.ReadAll(out); err != nil {
			t.Error(err)
		}
	}
	if Ended(spared.Process.Pid) {
		t.Error("the spared one was killed")
	}
}

// sleeper starts a child of the calling thread, and returns its id.
func sleeper(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

// A child that comes during a round is killed in it. None is to be reaped until all have ended.
func TestKillGoesOn(t *testing.T) {
	children := ofThread(t)
	var started []int
	start := func() { started = append(started, sleeper(t)) }
	defer func(was int64) { patience = was }(patience)
	patience = int64(time.Minute) // a start takes longer than 10 ms on a busy machine
	start()
	round := children.Kill(0, func(int) bool {
		if len(started) < 3 {
			start()
		}
		return false
	})
	if !round.All || !round.Came || !slices.Equal(round.Met, started) {
		t.Errorf("%+v, want %v", round, started)
	}
	if allEnded([]int{started[0], os.Getpid()}) {
		t.Error("one that lives counts as ended")
	}
	for _, pid := range started {
		AwaitEnd(pid)
	}
	if round := children.Kill(0, func(int) bool { return false }); round.Came || !round.Reap || len(round.Met) != len(started) {
		t.Errorf("once all have ended: %+v", round)
	}
}

// A round meets the children that are there however long it takes to list them, and says that
// there are others.
func TestKillIsLate(t *testing.T) {
	children := ofThread(t)
	var started []int
	start := func() { started = append(started, sleeper(t)) }
	defer func(was int64) { patience = was }(patience)
	patience = -1
	start()
	round := children.Kill(0, func(int) bool { start(); return false })
	if round.All || round.Reap || !slices.Equal(round.Met, started[:1]) {
		t.Errorf("%+v, want %v and no more", round, started[:1])
	}
}

// A tree that lives after many rounds is stopped before the next one, also where it is not
// reached by its group and by its parent.
func TestKillStopsFirst(t *testing.T) {
	children := ofThread(t)
	cmd := exec.Command("sh", "-c", "setsid sleep 60 >/dev/null & echo $!; wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	var below int
	if _, err := fmt.Fscan(out, &below); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(below, syscall.SIGKILL); _ = cmd.Wait() }()
	apart := func() bool { group, err := syscall.Getpgid(below); return err == nil && group == below }
	for !apart() {
		time.Sleep(time.Millisecond)
	}
	children.rounds = 32
	children.Kill(0, func(int) bool { return false })
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		stat, _ := readFile("/proc/" + itoa(below) + "/stat")
		if state := string(afterName(stat)[:1]); state == "T" {
			return
		} else if time.Now().After(end) {
			t.Fatalf("the grandchild is in state %s", state)
		}
	}
}

// Where many have died, Reap comes back before it has taken all.
func TestReapComesBack(t *testing.T) {
	const most = 3
	for range most + 1 {
		pid, err := syscall.ForkExec("/bin/true", []string{"true"}, nil)
		must.Succeed(t, err)
		AwaitEnd(pid)
	}
	ignore := func(int, syscall.WaitStatus) {}
	if died, none := Reap(most, ignore); died != most || none {
		t.Errorf("%d were reaped (none left: %t), want %d", died, none, most)
	}
	if died, none := Reap(most, ignore); died != 1 || !none {
		t.Errorf("then %d were reaped (none left: %t), want 1", died, none)
	}
}

// A thread has the high priority only until back is called.
func TestHurryThread(t *testing.T) {
	nice := func() int {
		got, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
		must.Succeed(t, err)
		return 20 - got
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := nice()
	back := HurryThread()
	if got := nice(); os.Geteuid() == 0 && got != -20 {
		t.Errorf("its nice value is %d", got)
	}
	back()
	if got := nice(); got != before {
		t.Errorf("afterwards it is %d, want %d", got, before)
	}
}

// A sweep goes from generation to generation without a pause, and pauses after a round
// without progress.
func TestSweepPauses(t *testing.T) {
	left := 1000
	begun := Now()
	if !Sweep(60_000_000_000, func() (bool, bool) { left--; return true, left == 0 }) {
		t.Error("children are left")
	}
	if took := time.Duration(Now() - begun); took > time.Second {
		t.Errorf("1000 generations took %s", took)
	}
	rounds := 0
	if Sweep(50_000_000, func() (bool, bool) { rounds++; return false, false }) || rounds > 100 {
		t.Errorf("%d rounds without progress within 50 ms", rounds)
	}
	slow := func() (bool, bool) { rounds++; Sleep(10_000_000); return false, false }
	rounds = 0
	for end := Now() + 100_000_000; Now() < end; {
		Sweep(10_000_000, slow) // a round takes all of it
	}
	if rounds > 6 {
		t.Errorf("%d slow rounds within 100 ms: half of the time others have the processor", rounds)
	}
}

// A process that is stopped each time its alarm has continued it is continued again.
func TestAlarmContinuesAgain(t *testing.T) {
	const asked, times, timers = "PROC_TEST_ALARM", 3, 20 // some go off while it is not stopped
	if os.Getenv(asked) != "" {
		a, err := NewAlarm(timers)
		must.Succeed(t, err)
		a.Set(Now() + 200_000_000)
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
		time.Sleep(time.Minute)
	}
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), asked+"=1")
	must.Succeed(t, child.Start())
	stuck := time.AfterFunc(20*time.Second, func() { _ = child.Process.Kill() })
	defer stuck.Stop()
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	for i := 0; i < times; {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(child.Process.Pid, &status, syscall.WUNTRACED|syscall.WCONTINUED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil || status.Signaled() || status.Exited():
			t.Fatalf("it was continued %d times, want %d (%v, %v)", i, times, status, err)
		case status.Continued():
			i++
			_ = child.Process.Signal(syscall.SIGSTOP)
		}
	}
}

func TestAlarm(t *testing.T) {
	a, err := NewAlarm(2)
	must.Succeed(t, err)
	var p [2]int
	must.Succeed(t, syscall.Pipe(p[:]))
	at := Now() + 20_000_000
	a.Set(at)
	for Now() < at { // a signal of the runtime ends it early
		if ready := a.Poll(p[0], -1); ready[0] || ready[1] {
			t.Errorf("ready %v", ready)
		}
	}
	a.Set(Now() + 60_000_000_000) // not readable until then
	if _, err := syscall.Write(p[1], []byte{0}); err != nil {
		t.Fatal(err)
	}
	if ready := a.Poll(p[0], -1); !ready[0] {
		t.Error("the pipe was not reported as readable")
	}
}

// The kernel cancels the timer when the wall clock is set: no test sets this machine's.
func TestWatchWallClock(t *testing.T) {
	fd, err := WatchWallClock()
	must.Succeed(t, err)
	defer syscall.Close(fd)
	if n, err := syscall.Read(fd, make([]byte, 8)); err != syscall.EAGAIN {
		t.Errorf("the first read returns %d, %v", n, err)
	}
	info := must.Read(t, fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	for _, want := range []string{"clockid: 0\n", "settime flags: 03\n"} { // CLOCK_REALTIME, absolute and cancelled
		if !strings.Contains(info, want) {
			t.Errorf("%q is missing in\n%s", want, info)
		}
	}
}
