package guard

import (
	"errors"
	"fmt"
	"io"
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
)

// If the variable is set in a user's environment, there is a message and no guard that waits.
func TestMarkerWithoutPipes(t *testing.T) {
	null, err := os.Open(os.DevNull)
	must.Succeed(t, err)
	defer null.Close()
	r, w := pipe(t)
	w.Close() // a guard that took r for its orders would end
	for _, test := range []struct {
		marker string
		files  []*os.File
	}{
		{"", nil}, {"x", nil}, {"3", nil}, {"2", []*os.File{r}}, // 2 is a pipe
		{"3", []*os.File{r, r, r}}, {"3", []*os.File{r, null, r, r}}, {"3", []*os.File{null, r, r, r}}, {"4", []*os.File{r, r, r, r}},
	} {
		cmd, said := another(test.marker, test.files...)
		_ = cmd.Run()
		if cmd.ProcessState.ExitCode() != Refused || !strings.Contains(said.String(), Marker+" is set") {
			t.Errorf("%q, %d files: %s, %q", test.marker, len(test.files), cmd.ProcessState, said)
		}
	}
}

// The guard kills even if nobody reads its reports.
func TestKillWithoutAReader(t *testing.T) {
	g := start(t, func(*exec.Cmd) {})
	dir := t.TempDir()
	for range 5000 { // more than a pipe holds
		g.order(t, OrderKill, 0, nil)
	}
	g.order(t, OrderStart, far(), shell("echo >"+dir+"/up; sleep 60"))
	await(t, "the command runs", func() bool { _, err := os.Stat(dir + "/up"); return err == nil })
	g.order(t, OrderKill, 0, nil)
	ended := make(chan error, 1)
	go func() { ended <- g.cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the guard ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the command lives")
	}
}

// A guard that does nothing after kill-by, since it is stopped again and again, is killed by the
// kernel, and with it the command and its group. Sometimes it does its work between two stops.
func TestGuardThatIsStoppedAgainAndAgain(t *testing.T) {
	g := start(t, func(*exec.Cmd) {})
	command, child := family(t)
	g.order(t, OrderStart, proc.Now()+int64(time.Second), command)
	pid, childPid := int(g.next(t, ReportStarted)), child()
	for g.cmd.Process.Signal(syscall.SIGSTOP) == nil && state(g.cmd.Process.Pid) != "Z" {
	}
	for _, pid := range []int{pid, childPid} {
		await(t, "the tree is dead", func() bool { return strings.Contains("Z", state(pid)) })
	}
}

// If the elector dies, the kernel kills the command's group without the guard, which is stopped here.
func TestElectorEndsWhileTheGuardIsStopped(t *testing.T) {
	g := start(t, func(*exec.Cmd) {})
	command, child := family(t)
	g.order(t, OrderStart, far(), command)
	pid, childPid := int(g.next(t, ReportStarted)), child()
	must.Succeed(t, g.cmd.Process.Signal(syscall.SIGSTOP))
	await(t, "the guard is stopped", func() bool { return state(g.cmd.Process.Pid) == "T" })
	g.leash.Close()
	for _, pid := range []int{pid, childPid} {
		await(t, "the tree is dead", func() bool { return strings.Contains("Z", state(pid)) })
	}
}

// The command does not inherit the guard's descriptors.
func TestCommandHasNoPipe(t *testing.T) {
	g := start(t, func(*exec.Cmd) {})
	out := t.TempDir() + "/descriptors"
	list := shell("ls /proc/$$/fd >" + out)
	must.Succeed(t, exec.Command(list.Path, list.Args[1:]...).Run())
	want, _ := os.ReadFile(out)
	g.order(t, OrderStart, far(), list)
	g.next(t, ReportStarted)
	g.next(t, ReportGone)
	g.ends(t)
	if got, err := os.ReadFile(out); err != nil || string(got) != string(want) {
		t.Errorf("descriptors of the command: %q, without a guard %q (%v)", got, want, err)
	}
}

// Other processes of the user cannot open the guard's descriptors.
func TestGuardDeniesAccess(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may start a process of another user")
	}
	const nobody = 65534
	g := start(t, func(cmd *exec.Cmd) { cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody} })
	g.order(t, OrderKill, 0, nil)
	if value := g.next(t, ReportKilling); value != 0 {
		t.Errorf("report with %d", value)
	}
	out, err := exec.Command("setpriv", "--reuid", strconv.Itoa(nobody), "--regid", strconv.Itoa(nobody), "--clear-groups",
		"ls", fmt.Sprintf("/proc/%d/fd", g.cmd.Process.Pid)).CombinedOutput()
	if err == nil {
		t.Errorf("its descriptors: %s", out)
	}
}

// A second start has no effect, nor has a signal before the first.
func TestOneCommandOnly(t *testing.T) {
	g := start(t, func(*exec.Cmd) {})
	g.order(t, OrderSignal, int64(syscall.SIGKILL), nil)
	g.order(t, OrderStart, far(), shell("exec sleep 60"))
	pid := g.next(t, ReportStarted)
	g.order(t, OrderStart, far(), shell("exit 7"))
	g.order(t, OrderKill, 0, nil)
	if status := syscall.WaitStatus(g.next(t, ReportGone)); status.Signal() != syscall.SIGKILL {
		t.Errorf("process %d ended with %v", pid, status)
	}
	g.ends(t)
}

// A start that hangs until kill-by is ended then: nobody else could end it once the elector
// is dead.
func TestStartThatHangs(t *testing.T) {
	script, ran, release := holdExecs(t)
	g := start(t, func(*exec.Cmd) {})
	g.order(t, OrderStart, proc.Now()+int64(2*time.Second), &Command{StartBy: far(), Path: script, Args: []string{"script"}, Env: os.Environ()})
	await(t, "the start is under way", func() bool { children, _ := proc.ChildrenOf(g.cmd.Process.Pid); return len(children) == 1 })
	g.orders.Close() // the elector is dead
	g.ends(t)        // and so is its child, which would keep the pipe open
	release()
	if _, err := os.Stat(ran); err == nil {
		t.Error("the command was started after kill-by")
	}
}

// The guard outlives a start that does not hang.
func TestGuardOutlivesAStart(t *testing.T) {
	g := start(t, func(*exec.Cmd) {})
	killBy := proc.Now() + int64(300*time.Millisecond)
	g.order(t, OrderStart, killBy, shell("exec sleep 60"))
	g.next(t, ReportStarted)
	g.order(t, OrderExtend, far(), nil)
	await(t, "the first kill-by has passed", func() bool { return proc.Now() > killBy+int64(20*time.Millisecond) })
	g.order(t, OrderKill, 0, nil)
	g.next(t, ReportGone)
}

// A tree that is killed at kill-by, without an order, is reported as expired.
func TestKillByIsReported(t *testing.T) {
	g := start(t, func(*exec.Cmd) {})
	g.order(t, OrderStart, proc.Now()+int64(300*time.Millisecond), shell("exec sleep 60"))
	g.next(t, ReportStarted)
	g.next(t, ReportExpired)
	g.ends(t)
}

func TestStoppedCommandEnds(t *testing.T) {
	g := start(t, func(*exec.Cmd) {})
	g.order(t, OrderStart, far(), shell("kill -STOP $$"))
	pid := int(g.next(t, ReportStarted))
	await(t, "the command stops", func() bool { return state(pid) == "T" })
	g.order(t, OrderSignal, int64(syscall.SIGTERM), nil)
	if status := syscall.WaitStatus(g.next(t, ReportGone)); status.Signal() != syscall.SIGTERM {
		t.Errorf("the command ended with %v", status)
	}
}

// The command has its caller's standard files. A reader of its output, or a writer of its
// input, does not wait for the guard.
func TestGuardLetsGo(t *testing.T) {
	in, toCommand := pipe(t)
	fromCommand, out := pipe(t)
	errorsOf, errs := pipe(t)
	g := start(t, func(cmd *exec.Cmd) { cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errs })
	for _, theirs := range []*os.File{in, out, errs} {
		theirs.Close()
	}
	g.order(t, OrderStart, far(), shell("read word; echo out $word; echo err $word >&2; exec sleep 60 <&- >&- 2>&-"))
	g.next(t, ReportStarted)
	if _, err := toCommand.WriteString("word\n"); err != nil {
		t.Fatal(err)
	}
	for want, r := range map[string]*os.File{"out word\n": fromCommand, "err word\n": errorsOf} {
		_ = r.SetReadDeadline(time.Now().Add(10 * time.Second))
		if got, err := io.ReadAll(r); err != nil || string(got) != want { // the end comes although the guard lives
			t.Errorf("read %q (%v), want %q", got, err, want)
		}
	}
	await(t, "nobody reads what is for the command", func() bool {
		_, err := toCommand.WriteString("x")
		return errors.Is(err, syscall.EPIPE)
	})
}

// SignalRest sends the last signal only to those who have not got it: to nobody while the command
// lives, and to nobody who got it after the command's end.
func TestSignalRest(t *testing.T) {
	heard := t.TempDir() + "/heard"
	worker := `exec 2>/dev/null; for sig in USR1 USR2; do trap "echo $sig >>` + heard + `" $sig; done; echo up >>` + heard + `; while :; do sleep 0.01; done`
	hears := func(want string) {
		t.Helper()
		got := ""
		await(t, fmt.Sprintf("the worker hears %q", want), func() bool {
			b, _ := os.ReadFile(heard)
			got = string(b)
			return len(got) >= len(want)
		})
		if got != want {
			t.Fatalf("the worker heard %q, want %q", got, want)
		}
	}
	g := start(t, func(*exec.Cmd) {})
	g.order(t, OrderStart, far(), shell("setsid sh -c '"+worker+"' & exec sleep 60"))
	g.next(t, ReportStarted)
	hears("up\n")
	g.order(t, OrderSignalRest, int64(syscall.SIGUSR1), nil)
	g.order(t, OrderSignal, int64(syscall.SIGKILL), nil)
	g.next(t, ReportEnded)
	g.order(t, OrderSignalRest, int64(syscall.SIGUSR2), nil)
	hears("up\nUSR2\n")
	g.order(t, OrderSignal, int64(syscall.SIGUSR2), nil)
	hears("up\nUSR2\nUSR2\n")
	g.order(t, OrderSignalRest, int64(syscall.SIGUSR1), nil)
	time.Sleep(50 * time.Millisecond) // a signal would arrive in that time
	g.order(t, OrderSignal, int64(syscall.SIGUSR2), nil)
	hears("up\nUSR2\nUSR2\nUSR2\n")
	g.order(t, OrderKill, 0, nil)
	g.next(t, ReportGone)
}

// A guard that has reaped a child sleeps until the next one dies, and takes orders.
func TestGuardSleepsBetweenDeaths(t *testing.T) {
	g := start(t, func(*exec.Cmd) {})
	g.order(t, OrderStart, far(), shell("(true &); exec sleep 60"))
	g.next(t, ReportStarted)
	time.Sleep(time.Second) // a guard that does not sleep fills its pipes in that time
	g.order(t, OrderKill, 0, nil)
	g.next(t, ReportGone)
	g.usedLittle(t)
}

const (
	nice    = 16
	threads = 17
)

// A guard that has started nothing ends with its elector, without an error.
func TestElectorEndsBeforeTheStart(t *testing.T) {
	g := start(t, func(*exec.Cmd) {})
	g.orders.Close()
	g.ends(t)
	if err := g.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// The tree dies with the elector.
func TestElectorEndsBeforeTheCommand(t *testing.T) {
	g := start(t, func(*exec.Cmd) {})
	g.order(t, OrderStart, far(), shell("exec sleep 60"))
	g.next(t, ReportStarted)
	g.orders.Close()
	g.next(t, ReportGone)
	g.ends(t)
}

// When the elector is dead and nothing of the tree lives any more, the guard becomes an ender, which
// is told the last kill-by.
func TestEnder(t *testing.T) {
	note := filepath.Join(t.TempDir(), "note")
	t.Setenv("ENDER", note)
	t.Setenv("TREE", note)
	c := shell("setsid sh -c 'trap \"\" TERM; sleep 60 & wait' & trap '' TERM; sleep 60 & wait")
	c.Ender = "told"
	held, _ := pipe(t) // by the caller, for the command
	g := start(t, func(cmd *exec.Cmd) { cmd.ExtraFiles = append(cmd.ExtraFiles, held) })
	g.order(t, OrderStart, far(), c)
	g.next(t, ReportStarted)
	killBy := far() + 1
	g.order(t, OrderExtend, killBy, nil)
	g.reports.Close() // a dead elector reads nothing
	g.orders.Close()
	must.Succeed(t, g.cmd.Wait())
	want := fmt.Sprintf("%d told true, arguments [%q], name %q, alive %q, 1 pipe", killBy, EnderName, EnderName+"\n", []string(nil))
	if got := must.Read(t, note); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// There is no ender while the elector lives, nor for a run that has nothing to end.
func TestNoEnder(t *testing.T) {
	note := filepath.Join(t.TempDir(), "note")
	t.Setenv("ENDER", note)
	ends := func(ender string, end func(*started)) {
		t.Helper()
		c := shell("exec sleep 60")
		c.Ender = ender
		g := start(t, func(*exec.Cmd) {})
		g.order(t, OrderStart, far(), c)
		g.next(t, ReportStarted)
		end(g)
		_ = g.cmd.Wait()
		if _, err := os.Stat(note); err == nil {
			t.Error("there was an ender")
		}
	}
	dies := func(g *started) { g.reports.Close(); g.orders.Close() }
	ends("", dies)
	ends("told", func(g *started) { g.kills(t) })
	ends("told", func(g *started) { g.order(t, OrderLeave, 0, nil) })
}

// The threads exist before the command, which may use up the process limit. While the guard
// waits for its start it gets no notification of a death.
func TestThreadsBeforeTheStart(t *testing.T) {
	const used = 3 // the guard's own, that of watchChildren, and the runtime's
	g := start(t, func(*exec.Cmd) {})
	await(t, "the threads are started", func() bool { return field(t, g.cmd.Process.Pid, threads) >= used+spare })
	g.order(t, OrderStart, far(), shell("exec sleep 60"))
	g.next(t, ReportStarted)
	g.order(t, OrderKill, 0, nil)
	g.next(t, ReportGone)
}

// While the command lives the guard has a high priority, and the command has not. After its
// end the guard has a low one, in favour of the elector and the next leader.
func TestPriorities(t *testing.T) {
	root(t)
	g := start(t, func(*exec.Cmd) {})
	guard := g.cmd.Process.Pid
	g.order(t, OrderStart, far(), shell("exec sleep 60"))
	pid := int(g.next(t, ReportStarted))
	await(t, "the guard comes first", func() bool { return field(t, guard, nice) == -20 })
	if n := field(t, pid, nice); n != field(t, os.Getpid(), nice) {
		t.Errorf("the command has a nice value of %d", n)
	}
	g.order(t, OrderKill, 0, nil)
	g.next(t, ReportGone)
	await(t, "the guard has ended", func() bool { return state(guard) == "Z" })
	if n := field(t, guard, nice); n != 10 {
		t.Errorf("the guard ended with a nice value of %d", n)
	}
}

// If children cannot be listed, the command dies all the same, and its descendants die once
// they can be listed again, long before kill-by.
func TestKillWithoutAList(t *testing.T) {
	root(t)
	g := start(t, func(cmd *exec.Cmd) {
		self, err := os.Executable()
		must.Succeed(t, err)
		// A program with many mutants reads from this link which mutant it is.
		hide := "mount -t tmpfs none /proc && mkdir /proc/self && ln -s " + self + " /proc/self/exe && exec " + self
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", hide}
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	})
	dir := t.TempDir()
	g.order(t, OrderStart, far(), shell("setsid sh -c 'echo >"+dir+"/up; exec sleep 60' & exec sleep 60"))
	pid := int(g.next(t, ReportStarted))
	await(t, "the descendant runs", func() bool { _, err := os.Stat(dir + "/up"); return err == nil })
	children, _ := proc.ChildrenOf(pid)
	if len(children) != 1 {
		t.Fatalf("children %v", children)
	}
	g.order(t, OrderKill, 0, nil)
	for range 2 { // the end of the command and the answer to the order, in either order
		if _, err := g.reports.Read(make([]byte, ReportLen)); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Second) // the guard sweeps in vain in that time, and leaves the processor to others
	if state(children[0]) != "S" {
		t.Fatal("the descendant died without a list")
	}
	await(t, "nobody uses what hides the list", func() bool {
		return exec.Command("nsenter", "--mount", "--target", strconv.Itoa(g.cmd.Process.Pid), "umount", "/proc").Run() == nil
	})
	g.next(t, ReportGone)
	g.usedLittle(t)
}
