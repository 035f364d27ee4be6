//go:build linux

package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// direct runs leaderrun as a caller would and returns its output and status.
func direct(t *testing.T, through []string, command ...string) (string, int) {
	t.Helper()
	args := append(through, "leaderrun", "--store=file:"+filepath.Join(t.TempDir(), "store"), "--key=k", "--")
	args = append(args, command...)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	var out strings.Builder
	cmd.Stdout = &out
	must.Succeed(t, cmd.Start())
	code := status(t, cmd)
	return out.String(), code
}

// inBatches runs f for 0 … n-1, several at a time.
func inBatches(n int, f func(i int)) {
	var all sync.WaitGroup
	gate := make(chan struct{}, 4)
	for i := range n {
		gate <- struct{}{}
		all.Go(func() { f(i); <-gate })
	}
	all.Wait()
}

// The statuses that mean something to leaderrun, a shell or nobody.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	codes := []int{0, 1, 2, 3, 64, 68, 69, 70, 75, 76, 77, 123, 124, 125, 126, 127, 128, 129, 130, 137, 143, 165, 254, 255}
	inBatches(len(codes), func(i int) {
		if _, got := direct(t, nil, "sh", "-c", fmt.Sprint("exit ", codes[i])); got != codes[i] {
			t.Errorf("exit %d became %d", codes[i], got)
		}
	})
}

func TestEverySignal(t *testing.T) {
	t.Parallel()
	harmless := map[syscall.Signal]bool{ // those that end nobody by default
		syscall.SIGCHLD: true, syscall.SIGCONT: true, syscall.SIGSTOP: true, syscall.SIGTSTP: true,
		syscall.SIGTTIN: true, syscall.SIGTTOU: true, syscall.SIGURG: true, syscall.SIGWINCH: true,
	}
	inBatches(31, func(i int) {
		sig := i + 1
		if harmless[syscall.Signal(sig)] {
			return
		}
		if _, got := direct(t, nil, "sh", "-c", fmt.Sprintf("ulimit -c 0; kill -%d $$; exit 99", sig)); got != 128+sig {
			t.Errorf("death by signal %d became %d", sig, got)
		}
	})
}

// Signals that the caller ignores or blocks are ignored or blocked in the command, as if it
// had been run directly. A Go program cannot pass on that a signal was ignored, except HUP
// and INT, which nohup and background jobs of shells without job control ignore. It also
// unblocks some signals that the caller blocks: docs/guard.md names them.
func TestDispositionsPass(t *testing.T) {
	t.Parallel()
	show := []string{"grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"}
	for _, through := range [][]string{
		{"sh", "-c", `exec "$@"`, "sh"},
		{"sh", "-c", `trap "" HUP; exec "$@"`, "sh"},
		{"sh", "-c", `trap "" INT; exec "$@"`, "sh"},
		{"sh", "-c", `trap "" HUP INT; exec "$@"`, "sh"},
		{"env", "--block-signal=USR1,USR2,ALRM,TSTP"},
	} {
		want, err := exec.Command(through[0], append(through[1:], show...)...).Output()
		must.Succeed(t, err)
		if got, _ := direct(t, through, show...); got != string(want) {
			t.Errorf("%s\n%s directly\n%s under leaderrun", through, want, got)
		}
	}
}

// unshared returns how to start a program in namespaces of its own, by arguments of unshare, and
// skips the test on a machine that allows none.
func unshared(t *testing.T, args ...string) []string {
	t.Helper()
	through := append([]string{"unshare", "--map-root-user"}, args...)
	if err := exec.Command(through[0], append(through[1:], "true")...).Run(); err != nil {
		t.Skipf("this machine allows no namespaces: %v", err)
	}
	return through
}

// entered returns a program to be started in the namespaces of a process.
func entered(pid int, args ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(pid), "--user", "--preserve-credentials", "--pid", "--mount"}
	return exec.Command("nsenter", append(enter, args...)...)
}

// As the first process of a container, leaderrun reaps the command's orphans and keeps the
// command's status.
func TestFirstProcess(t *testing.T) {
	t.Parallel()
	namespace := unshared(t, "--pid", "--fork", "--mount-proc")
	orphans := `for i in $(seq 200); do (true &); done
		for i in $(seq 100); do ps -eo stat= | grep -q Z || break; sleep 0.05; done
		ps -eo ppid=,stat=,comm= | grep " Z"; echo zombies above; exit 7`
	out, code := direct(t, namespace, "bash", "-c", orphans)
	if code != 7 || out != "zombies above\n" {
		t.Errorf("status %d, want 7; zombies:\n%s", code, out)
	}
}

// An orphan that does not belong to the command's tree, as from an `exec` into the
// container.
func TestFirstProcessReapsAdoptedOrphans(t *testing.T) {
	t.Parallel()
	namespace := unshared(t, "--pid", "--fork", "--mount-proc", "--kill-child")
	dir := t.TempDir()
	cmd := exec.Command(namespace[0], append(namespace[1:], "leaderrun", "--store=file:"+filepath.Join(dir, "store"), "--key=k", "--",
		"sh", "-c", `echo up >up; while [ ! -e end ]; do sleep 0.05; done`)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	must.Succeed(t, cmd.Start())
	eventually(t, "the command runs", func() bool { _, err := os.Stat(filepath.Join(dir, "up")); return err == nil })
	first := childOf(t, cmd.Process.Pid)
	if out, err := entered(first, "sh", "-c", "(sleep 0.1 &)").CombinedOutput(); err != nil {
		t.Fatalf("nsenter: %v\n%s", err, out)
	}
	eventually(t, "the orphan is reaped", func() bool {
		out, err := entered(first, "ps", "-eo", "ppid=,stat=,comm=").Output()
		must.Succeed(t, err)
		return !strings.Contains(string(out), "Z") && !strings.Contains(string(out), "sleep 0.1")
	})
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "end"), nil, 0o600))
	if got := status(t, cmd); got != 0 {
		t.Errorf("status %d", got)
	}
}

// A standby whose prepared guard was killed reaps like any first process, starts another
// guard, and does not look for zombies unless a process has died.
func TestFirstProcessStandsByWithADeadGuard(t *testing.T) {
	namespace := unshared(t, "--pid", "--fork", "--mount-proc", "--kill-child")
	dir := t.TempDir()
	run := func(argv ...string) *exec.Cmd {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		cmd.Env = append(os.Environ(), "LEADERRUN_STORE=file:"+filepath.Join(dir, "store"), "LEADERRUN_KEY=k")
		must.Succeed(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd
	}
	run("leaderrun", "sh", "-c", "echo up >up; exec sleep 60")
	eventually(t, "somebody leads", func() bool { _, err := os.Stat(filepath.Join(dir, "up")); return err == nil })
	children := func(pid int) []string { return strings.Fields(strings.Join(taskFiles(t, pid, "children"), "")) }
	onlyChild := func(parent int) (pid int) {
		eventually(t, "it has a child", func() bool {
			if list := children(parent); len(list) == 1 {
				pid, _ = strconv.Atoi(list[0])
			}
			return pid != 0
		})
		return pid
	}
	first := onlyChild(run(append(namespace, "leaderrun", "--wait", "forever", "true")...).Process.Pid)
	guard := onlyChild(first)
	must.Succeed(t, syscall.Kill(guard, syscall.SIGKILL))
	if out, err := entered(first, "bash", "-c", "for i in $(seq 1000); do (true &); done").CombinedOutput(); err != nil {
		t.Fatalf("nsenter: %v\n%s", err, out)
	}
	eventually(t, "there is no child but another guard", func() bool {
		now := children(first)
		return len(now) == 1 && now[0] != fmt.Sprint(guard)
	})
	switches := func() (n int) {
		for _, text := range taskFiles(t, first, "status") {
			for _, m := range regexp.MustCompile(`voluntary_ctxt_switches:\s(\d+)`).FindAllStringSubmatch(text, -1) {
				count, _ := strconv.Atoi(m[1])
				n += count
			}
		}
		return n
	}
	before := switches()
	time.Sleep(time.Second) // in which nothing happens
	if n := switches() - before; n > 50 {
		t.Errorf("in a second without an event the first process was scheduled %d times", n)
	}
}

// taskFiles returns the contents of a file of /proc for each thread.
func taskFiles(t *testing.T, pid int, name string) (texts []string) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/%s", pid, name))
	if err != nil || len(files) == 0 {
		t.Fatalf("process %d is gone", pid)
	}
	for _, file := range files {
		text, _ := os.ReadFile(file) // the thread may have ended
		texts = append(texts, string(text))
	}
	return texts
}

// A child from before leaderrun's exec, as in an entrypoint that starts a sidecar and then
// execs leaderrun, does not belong to the command: it survives even the kill after the
// guard's death.
func TestSidecarSurvives(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sidecar")
	entrypoint := `sleep 60 >/dev/null & echo $! >` + file + `; exec "$@"`
	if _, code := direct(t, []string{"sh", "-c", entrypoint, "sh"}, "sh", "-c", "kill -9 $PPID; sleep 60"); code != 125 {
		t.Errorf("status %d after the guard's death, want 125", code)
	}
	b := must.Read(t, file)
	pid, err := strconv.Atoi(strings.TrimSpace(b))
	must.Succeed(t, err)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the sidecar is dead: %v", err)
	}
}

// If no lease file can be created, there is one warning, and the job runs.
func TestNoLeaseFile(t *testing.T) {
	t.Parallel()
	nowhere := unshared(t, "--mount", "env", "-u", "XDG_RUNTIME_DIR", "TMPDIR=/nowhere",
		"sh", "-c", `mount -t tmpfs -o ro none /run && exec "$@"`, "sh")
	args := append(nowhere, "leaderrun", "--store=file:"+filepath.Join(t.TempDir(), "store"), "--key=k", "--",
		"sh", "-c", `leaderrun check; echo $? "$LEADERRUN_KEY$LEADERRUN_LEASE_FILE"`)
	cmd := exec.Command(args[0], args[1:]...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil || string(out) != "1 k\n" {
		t.Errorf("%v, the command printed %q", err, out)
	}
	want := "leaderrun: k: there is no lease file, leaderrun check says no in this run: " +
		"/run/leaderrun: no such file or directory; /nowhere: no such file or directory\n  "
	if !strings.HasPrefix(undated(said.String()), want) || strings.Count(said.String(), "\n") != 2 {
		t.Errorf("it said:\n%s", said.String())
	}
}

// undated returns messages without their date and time.
func undated(said string) string {
	return regexp.MustCompile(`(?m)^(leaderrun: )[-0-9]+ [0-9:.]+ `).ReplaceAllString(said, "$1")
}

// A closed pipe on stderr, as in 2>&1 | true, does not end a run, whether a warning comes at
// once, like that about a short TTL, or later.
func TestNobodyReadsTheMessages(t *testing.T) {
	t.Parallel()
	inBatches(8, func(i int) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Error(err)
			return
		}
		r.Close()
		defer w.Close()
		cmd := exec.Command("leaderrun", "-vv", "--ttl=2s", "--store=file:"+filepath.Join(t.TempDir(), "store"), fmt.Sprint("--key=", i), "--", "sh", "-c", "exit 3")
		cmd.Stderr = w
		if err := cmd.Start(); err != nil {
			t.Error(err)
			return
		}
		if got := status(t, cmd); got != 3 {
			t.Errorf("status %d, want the command's, 3", got)
		}
	})
}
