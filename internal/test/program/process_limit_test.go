//go:build linux

package program

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/guard"
	"github.com/leaderrun/leaderrun/internal/proc"
	"github.com/leaderrun/leaderrun/internal/test/must"
)

// somebody and the ids after it are ordinary users: root has no process limit.
const somebody = 54321

// guardOf finds the command's guard among the children of an elector: hooks have guards, too.
func guardOf(t *testing.T, elector int, command string) int {
	t.Helper()
	named := func(name string) func(pid int) bool {
		return func(pid int) bool {
			comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			return string(comm) == name+"\n"
		}
	}
	found := 0
	eventually(t, "the command's guard is among the children", func() bool { // the list may lack one while another is reaped
		children, _ := proc.ChildrenOf(elector)
		i := slices.IndexFunc(children, func(pid int) bool {
			commands, _ := proc.ChildrenOf(pid)
			return named(guard.Name)(pid) && slices.ContainsFunc(commands, named(command))
		})
		if i >= 0 {
			found = children[i]
		}
		return i >= 0
	})
	return found
}

// In TestProcessLimit the command uses up the process limit of its user, and then something
// happens that leaderrun might need a thread for. Each time it ends with a status of the
// contract and without a stack trace.
func TestProcessLimit(t *testing.T) {
	bin := somebodysPrograms(t)
	hits := []struct {
		name   string
		do     func(t *testing.T, elector int)
		status []int
	}{
		{"nothing", func(*testing.T, int) {}, []int{0, 128 + 15, 128 + 9}},
		{"TERM", func(t *testing.T, elector int) { send(t, elector, syscall.SIGTERM) }, []int{128 + 15, 128 + 9}},
		{"guard killed", func(t *testing.T, elector int) { send(t, guardOf(t, elector, "chains"), syscall.SIGKILL) }, []int{125}},
		{"elector stopped", func(t *testing.T, elector int) { send(t, elector, syscall.SIGSTOP) }, []int{76}},
		{"signals", func(t *testing.T, elector int) {
			for range 20 {
				send(t, elector, syscall.SIGCONT)
				send(t, elector, syscall.SIGWINCH)
			}
		}, []int{0, 128 + 15, 128 + 9}},
	}
	const rounds = 10
	for i, hit := range hits {
		for round := range rounds {
			t.Run(fmt.Sprint(hit.name, " ", round), func(t *testing.T) {
				t.Parallel()
				dir := memory(t)
				var stderr bytes.Buffer
				// Long enough that a busy machine does not lose the lease.
				ttl := 5 * time.Second
				if hit.name == "elector stopped" { // which it does here
					ttl = 2 * time.Second
				}
				elector := bySomebody(t, somebody+i*rounds+round, dir, fmt.Sprintf("ulimit -u %d; exec %s/leaderrun --store=file:$PWD/store --key=k --ttl=%s --renew=50ms -k 100ms --on-acquire true -- %s/chains limit 5 >ready", 40+round, bin, ttl, bin))
				elector.Stderr = &stderr
				must.Succeed(t, elector.Start())
				t.Cleanup(func() {
					if t.Failed() {
						_ = elector.Process.Kill()
						_ = elector.Wait()
						t.Logf("%.2000s", stderr.String())
					}
				})
				eventually(t, "the limit is reached", func() bool {
					b, _ := os.ReadFile(filepath.Join(dir, "ready"))
					return len(b) > 0
				})
				time.Sleep(time.Duration(round) * 5 * time.Millisecond)
				hit.do(t, elector.Process.Pid)
				if got := status(t, elector); !slices.Contains(hit.status, got) || strings.Contains(stderr.String(), "goroutine ") || strings.Contains(stderr.String(), "fatal error") {
					t.Errorf("status %d, want one of %v; stderr:\n%.2000s", got, hit.status, stderr.String())
				}
			})
		}
	}
}

// With limits that are too low for leaderrun alone it says so before it asks the store.
func TestLimitsThatAreTooLow(t *testing.T) {
	bin := somebodysPrograms(t)
	for limit, test := range map[string]struct {
		status int
		said   string
	}{
		"-u 39": {125, "leaderrun: k: nothing ran: cannot start the guard process: leaderrun needs 40 processes and threads, and fewer are allowed\n  raise the limit of processes: ulimit -u"},
		"-n 31": {125, "leaderrun: k: nothing ran: cannot start the guard process: leaderrun needs 32 open files, and fewer are allowed\n  raise the limit of open files: ulimit -n"},
		"-u 40": {0, ""},
		"-n 32": {0, ""},
	} {
		t.Run(limit, func(t *testing.T) {
			dir := memory(t)
			cmd := bySomebody(t, somebody+101, dir, fmt.Sprintf("ulimit %s; exec %s/leaderrun --store=file:$PWD/store --key=k --eligible true --on-acquire 'sleep 0.1' -- sleep 0.2", limit, bin))
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			must.Succeed(t, cmd.Start())
			got, said := status(t, cmd), undated(stderr.String())
			if got != test.status || !strings.HasPrefix(said, test.said) || test.said == "" && said != "" {
				t.Errorf("status %d, it said:\n%.2000s", got, said)
			}
			if _, err := os.Stat(filepath.Join(dir, "store")); err == nil && got != 0 {
				t.Error("there is a store")
			}
		})
	}
}

// In TestPendingSignals there are fewer timers than a guard needs: each counts towards the
// user's limit of pending signals.
func TestPendingSignals(t *testing.T) {
	bin := somebodysPrograms(t)
	dir := memory(t)
	cmd := bySomebody(t, somebody+100, dir, fmt.Sprintf("ulimit -i 5; exec %s/leaderrun --store=file:$PWD/store --key=k -- echo ran", bin))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	must.Succeed(t, cmd.Start())
	want := "leaderrun: k: nothing ran: cannot start the guard process: the system refused it a timer, a descriptor or a call: resource temporarily unavailable\n  raise the limits of pending signals (ulimit -i)"
	if got := status(t, cmd); got != 125 || !strings.HasPrefix(undated(stderr.String()), want) {
		t.Errorf("status %d, it said:\n%s", got, stderr.String())
	}
}

// In TestRefusedCalls a seccomp filter refuses leaderrun a call without which its guard would
// hang, its tree could not be killed, or nobody would know whether it lives.
func TestRefusedCalls(t *testing.T) {
	for name, call := range map[string]uint32{
		"ppoll": unix.SYS_PPOLL, "kill": unix.SYS_KILL, "wait4": unix.SYS_WAIT4, "waitid": unix.SYS_WAITID, "prctl": unix.SYS_PRCTL,
		"timer_settime": unix.SYS_TIMER_SETTIME, "timerfd_settime": unix.SYS_TIMERFD_SETTIME,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := leaderrun(memory(t), "--", "echo", "ran")
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			started := make(chan error)
			go func() { // in a thread that ends with it
				runtime.LockOSThread()
				started <- errors.Join(refuse(call), cmd.Start())
			}()
			must.Succeed(t, <-started)
			stuck := time.AfterFunc(patience/2, func() { // it would outlive the elector
				guards, _ := proc.ChildrenOf(cmd.Process.Pid)
				for _, pid := range guards {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			})
			defer stuck.Stop()
			want := "leaderrun: k: nothing ran: cannot start the guard process: the system refused it a timer, a descriptor or a call: " + name + ": operation not permitted\n"
			if got := status(t, cmd); got != 125 || !strings.HasPrefix(undated(stderr.String()), want) || stdout.Len() > 0 {
				t.Errorf("status %d, it said:\n%s%s", got, stdout.String(), stderr.String())
			}
		})
	}
}

// refuse has the kernel answer EPERM to a call of this thread and of what it starts.
func refuse(call uint32) error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the call's number comes first
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: call},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}

// TestForkBomb kills elector or guard of a command whose processes fork whenever their user's
// limit allows it, each in its own session. Such a tree would live until it ends by itself,
// here after half a minute, if it forked as fast as it is killed.
func TestForkBomb(t *testing.T) {
	bin := somebodysPrograms(t)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for _, victim := range []string{"elector", "guard"} {
		t.Run(victim, func(t *testing.T) {
			command := "ulimit -u 100; exec " + bin + "/chains bomb 300"
			if took, bound := killTime(t, somebody, command, victim), 15*time.Second; took > bound {
				t.Errorf("the tree lived for %s", took)
			}
		})
	}
}

// somebodysPrograms returns a directory with the programs that any user may run.
func somebodysPrograms(t *testing.T) (bin string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user, who has no other processes")
	}
	bin = memory(t)
	for name, build := range map[string][]string{
		"chains":    {"go", "build", "-o", bin + "/chains", "./internal/tools/chains"},
		"leaderrun": {"sh", "-c", "cp \"$(command -v leaderrun)\" " + bin},
	} {
		if out, err := exec.Command(build[0], build[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	must.Succeed(t, os.Chmod(bin, 0o755))
	return bin
}

// bySomebody returns a shell command that runs as an ordinary user, in a directory that it
// makes theirs.
func bySomebody(t *testing.T, user int, dir, command string) *exec.Cmd {
	t.Helper()
	must.Succeed(t, os.Chown(dir, user, user))
	c := exec.Command("bash", "-c", command)
	c.Dir = dir
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
	return c
}
