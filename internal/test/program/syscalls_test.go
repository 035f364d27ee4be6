//go:build linux && amd64

package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/proc"
	"github.com/leaderrun/leaderrun/internal/store"
	"github.com/leaderrun/leaderrun/internal/store/location"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

var (
	everyCall = flag.Bool("everycall", false, "let TestEverySystemCallFails fail the n-th call for every n, and not only for 1, APART, its square …")
	apart     = flag.Int("apart", 8, "as often as 8 times the call before; .ci/run takes 2")
)

// failures are the system calls to fail, with their errors.
var failures = map[string][]string{
	"capget":            {"EPERM"},
	"clone":             {"EAGAIN"},
	"close":             {"EIO"},
	"close_range":       {"ENOSYS"},
	"connect":           {"EADDRNOTAVAIL"},
	"dup3":              {"EMFILE"},
	"execve":            {"ENOMEM"},
	"faccessat":         {"ENOMEM"},
	"fchmod":            {"EPERM"},
	"fchmodat":          {"EPERM"},
	"flock":             {"EINTR", "ENOLCK"},
	"fstat":             {"EIO"},
	"fsync":             {"EIO"},
	"ftruncate":         {"EIO"},
	"getdents64":        {"ENOMEM"},
	"getpeername":       {"ENOBUFS"},
	"getpriority":       {"EPERM"},
	"getsockname":       {"ENOBUFS"},
	"getsockopt":        {"ENOBUFS"},
	"inotify_add_watch": {"ENOSPC"},
	"inotify_init1":     {"EMFILE"},
	"inotify_rm_watch":  {"EINVAL"},
	"kill":              {"EPERM"},
	"mkdirat":           {"ENOSPC"},
	"mlockall":          {"EPERM"},
	"newfstatat":        {"ENOMEM"},
	"openat":            {"EMFILE"},
	"pidfd_open":        {"EMFILE"},
	"pidfd_send_signal": {"EPERM"},
	"pipe2":             {"EMFILE"},
	"ppoll":             {"EINTR", "ENOMEM"},
	"prctl":             {"EPERM"},
	"pread64":           {"EIO"},
	"pwrite64":          {"EIO"},
	"read":              {"EIO", "EINTR"},
	"read:pipe":         {"EINTR"},
	"read:socket":       {"ECONNRESET", "EINTR"},
	"readlinkat":        {"ENOMEM"},
	"renameat":          {"ENOSPC"},
	"setpgid":           {"EPERM"},
	"setsid":            {"EPERM"},
	"setpriority":       {"EACCES"},
	"setsockopt":        {"ENOBUFS"},
	"socket":            {"EMFILE"},
	"statfs":            {"EIO"},
	"timer_create":      {"EAGAIN"},
	"timer_settime":     {"EINVAL"},
	"timerfd_create":    {"EMFILE"},
	"timerfd_settime":   {"EINVAL"},
	"uname":             {"EPERM"},
	"unlinkat":          {"EIO"},
	"wait4":             {"EINTR"},
	"waitid":            {"EINTR", "ECHILD"},
	"write":             {"EIO", "EINTR"},
	"write:pipe":        {"ENOMEM", "EINTR"},
	"write:socket":      {"EPIPE", "EINTR"},
}

// spared are the other system calls. First line: calls that cannot fail with the arguments
// that the program uses; fcntl only sets flags of open descriptors. The rest is called by
// Go's runtime, which aborts the program on an error: so no thread may be started once the
// command runs.
var spared = []string{
	"exit", "exit_group", "clock_gettime", "fcntl", "geteuid", "getpgid", "getpgrp", "getpid", "getppid", "gettid", "lseek",
	"arch_prctl", "clone:thread", "epoll_create1", "epoll_ctl", "epoll_pwait", "eventfd2", "futex", "getrandom", "madvise", "mmap", "munmap",
	"nanosleep", "prlimit64", "read:eventfd", "restart_syscall", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sched_getaffinity",
	"sched_yield", "sigaltstack", "tgkill", "write:eventfd",
}

// life is a run of leaderrun in which one system call fails.
type life struct {
	name    string
	redis   bool // the store; else a directory
	ttl     time.Duration
	renew   time.Duration
	wait    bool     // while another leads, for a moment
	command string   // a line of bash
	roles   []string // whose calls fail
	calls   []string // which; nil are all
	// happens is called once the command prints "ready". Only later calls fail: the
	// earlier ones are tested in another life.
	happens func(elector, guard int)
	status  []int // of a run that the failure does not affect
	leaves  bool  // the lease may be left, and then ends with its TTL
}

// A patient command ends by itself; a family has a member that heeds no signal,
// in a session of its own.
const (
	patient = "echo ready >>said; sleep 0.1; echo ended >>said; exit 7"
	family  = "(setsid bash -c 'trap \"\" TERM; echo ready >>said; sleep 60; true' &); sleep 60; true"
)

const (
	ttl   = 5 * time.Second
	often = 40 * time.Millisecond   // some renewals in the life of a patient command
	once  = 1500 * time.Millisecond // none
	// atMost is how long others wait for the lease.
	atMost = ttl + 10*time.Second
)

var lives = []life{
	{name: "ends", ttl: ttl, renew: often, command: patient, roles: []string{"elector", "guard", "command"}, status: []int{7}},
	{name: "ends, redis", redis: true, ttl: ttl, renew: often, command: patient, roles: []string{"elector"}, status: []int{7},
		calls: []string{"socket", "connect", "setsockopt", "getsockopt", "getpeername", "getsockname", "read:socket", "write:socket"}},
	{name: "stands by", wait: true, ttl: ttl, renew: often, command: patient, roles: []string{"elector", "guard"}, status: []int{7},
		calls: []string{"inotify_init1", "inotify_add_watch", "inotify_rm_watch", "pipe2", "clone", "execve", "waitid", "timer_create", "timerfd_create", "prctl", "ppoll"}},
	{name: "ordered", ttl: ttl, renew: once, command: family, roles: []string{"elector", "guard"}, status: []int{128 + 15, 128 + 9},
		happens: func(elector, _ int) { _ = syscall.Kill(elector, syscall.SIGTERM) }},
	{name: "guard killed", ttl: ttl, renew: once, command: family, roles: []string{"elector"}, status: []int{125},
		happens: func(_, guard int) { _ = syscall.Kill(guard, syscall.SIGKILL) }},
	{name: "elector killed", ttl: ttl, renew: once, command: family, roles: []string{"guard", "ender"}, status: []int{128 + 9}, leaves: true,
		happens: func(elector, _ int) { _ = syscall.Kill(elector, syscall.SIGKILL) }},
	{name: "elector stopped", ttl: time.Second, renew: 300 * time.Millisecond, command: family, roles: []string{"guard"}, status: []int{76},
		happens: func(elector, _ int) {
			_ = syscall.Kill(elector, syscall.SIGSTOP)
			// A machine that stood still since "ready" may have used up the alarm that continues it.
			time.AfterFunc(long/4, func() { _ = syscall.Kill(elector, syscall.SIGCONT) })
		}},
}

// TestEverySystemCallFails runs leaderrun repeatedly, and makes another of its system calls
// fail each time. In every case leaderrun ends, its status is true, and no process and no
// lease is left.
func TestEverySystemCallFails(t *testing.T) {
	t.Parallel()
	failcall := script.Build(t, "internal/tools/failcall")
	server := script.StartRedis(t).Addr
	for _, l := range lives {
		t.Run(l.name, func(t *testing.T) {
			harmless := l.run(t, failcall, server)
			for tries := 1; l.happens != nil && !harmless.happened && tries < 5; tries++ {
				harmless = l.run(t, failcall, server) // a machine that stood still has ended the one before
			}
			harmless.judge(t)
			if !harmless.unharmed() {
				t.Fatalf("without a failure the status is %d, stderr:\n%s", harmless.status, harmless.stderr)
			}
			var faults [][]string
			for _, c := range harmless.made {
				faults = append(faults, l.faults(t, c)...)
			}
			var failed atomic.Int32
			each(faults, func(fault []string) {
				r := l.run(t, failcall, server, fault...)
				r.judge(t)
				if r.failed != "" {
					failed.Add(1)
				}
			})
			t.Logf("%d runs, in %d of which a call failed", len(faults), failed.Load())
			if 4*int(failed.Load()) <= len(faults) {
				t.Error("too few: a run on a busy machine makes more calls than the next, but not so many")
			}
		})
	}
}

// each calls do for four faults at a time: the processes of a run mostly wait. With twice as many
// the killed ones may get no processor for seconds, beside tracers and tests that poll.
func each(faults [][]string, do func([]string)) {
	next := make(chan []string)
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for fault := range next {
				do(fault)
			}
		})
	}
	for _, fault := range faults {
		next <- fault
	}
	close(next)
	workers.Wait()
}

// made counts a system call of a role.
type made struct {
	role, call string
	n          int
}

// faults are the arguments of failcall for the failures of one call.
func (l life) faults(t *testing.T, c made) (all [][]string) {
	if !slices.Contains(l.roles, c.role) || slices.Contains(spared, c.call) || l.calls != nil && !slices.Contains(l.calls, c.call) {
		return nil
	}
	how := failures[c.call]
	if how == nil {
		t.Errorf("the %s calls %s: say how that fails, or why not", c.role, c.call)
	}
	for _, errno := range how {
		for n := 1; n <= c.n; {
			all = append(all, []string{c.role, c.call, strconv.Itoa(n), errno})
			if *everyCall {
				n++
			} else {
				n *= *apart
			}
		}
	}
	return all
}

// lived is the result of a life.
type lived struct {
	life
	fault        []string
	happened     bool // what happens in this life
	hung         bool
	status       int
	said, stderr string
	made         []made
	failed       string // what failcall says of the call
	left         bool   // the guard, when the elector ended
	alive        []int  // of the tree
	next         error  // of the next leader
}

// long is how long a run may take on a busy machine.
const long = time.Minute

func (l life) run(t *testing.T, failcall, server string, fault ...string) lived {
	dir := memory(t)
	defer os.RemoveAll(dir)
	r, mark := lived{life: l, fault: fault}, "FAULT="+dir
	stderr, err := os.Create(filepath.Join(dir, "stderr"))
	if err != nil {
		t.Error(err)
		return r
	}
	defer stderr.Close()
	candidate := l.candidate(dir, server)
	if l.wait {
		before := exec.Command("leaderrun", append(candidate, "sh", "-c", "echo up; sleep 0.3")...)
		defer meanwhile(t, before)()
	}
	var args []string
	if l.happens != nil {
		args = append(args, "-late")
	}
	args = append(append(append(args, "report"), fault...), "--", "leaderrun")
	args = append(append(args, candidate...), "--renew="+l.renew.String(), "-k=50ms", "env", "TREE="+dir, "bash", "-c", "echo begun >>said; "+l.command)
	cmd := exec.Command(failcall, args...)
	cmd.Dir, cmd.Stderr, cmd.Env = dir, stderr, append(os.Environ(), mark)
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return r
	}
	over := make(chan struct{})
	go func() {
		_ = cmd.Wait() // what it says is in ProcessState
		close(over)
	}()
	stuck := time.AfterFunc(long, func() { _ = cmd.Process.Kill() }) // and all that it traces
	if l.happens != nil {
		r.happened = l.happen(cmd.Process, dir, over)
	}
	<-over
	r.alive = marked(mark)
	r.hung = !stuck.Stop()
	r.status = cmd.ProcessState.ExitCode()
	for _, pid := range r.alive {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if !l.leaves {
		r.next = l.free(dir, server)
	}
	r.said, r.stderr = content(dir, "said"), content(dir, "stderr")
	r.read(content(dir, "report"))
	return r
}

// free waits until the key is granted: nobody's lease is left.
func (l life) free(dir, server string) error {
	s, err := store.Open(location.Options{URL: l.store(dir, server), Prefix: "leaderrun"})
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), atMost)
	defer cancel()
	request := lease.Request{Key: filepath.Base(dir), Holder: lease.NewHolder("next", os.Getpid()), TTL: l.ttl}
	for {
		if _, err := s.Acquire(ctx, request); err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (l life) store(dir, server string) string {
	if l.redis {
		return "redis://" + server
	}
	return "file:" + filepath.Join(dir, "store")
}

// candidate are the arguments of all who want the key.
func (l life) candidate(dir, server string) []string {
	args := []string{"--store=" + l.store(dir, server), "--key=" + filepath.Base(dir), "--ttl=" + l.ttl.String(), "--retry=20ms", "-q"}
	return append(args, "--wait="+atMost.String())
}

// meanwhile starts a command, waits until it says something, and returns how to
// wait for its end.
func meanwhile(t *testing.T, cmd *exec.Cmd) (end func()) {
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 1))
	}
	if err != nil {
		t.Error(err)
		return func() {}
	}
	return func() { _ = cmd.Wait() }
}

// happen waits for the command and does to the leaderrun what is to happen,
// unless leaderrun ends before, at whatever moment that is. It reports whether it did.
func (l life) happen(failcall *os.Process, dir string, over <-chan struct{}) (happened bool) {
	until := func(ok func() bool) bool {
		for !ok() {
			select {
			case <-over:
				return false
			case <-time.After(2 * time.Millisecond):
			}
		}
		return true
	}
	if !until(func() bool { return strings.Contains(content(dir, "said"), "ready") }) {
		return false
	}
	_ = failcall.Signal(syscall.SIGUSR1)
	if !until(func() bool { _, err := os.Stat(filepath.Join(dir, "report")); return err == nil }) {
		return false
	}
	return until(func() (found bool) { // the kernel's list may lack a child while another one ends
		for _, elector := range children(failcall.Pid) {
			for _, guard := range children(elector) {
				l.happens(elector, guard)
				found = true
			}
		}
		return found
	})
}

// children returns the children of a process, none if it has ended.
func children(pid int) []int {
	pids, _ := proc.ChildrenOf(pid)
	return pids
}

func content(dir, name string) string {
	b, _ := os.ReadFile(filepath.Join(dir, name)) // missing is as good as empty
	return string(b)
}

// read reads failcall's report.
func (r *lived) read(report string) {
	for line := range strings.Lines(report) {
		switch words := strings.Fields(line); words[0] {
		case "failed":
			r.failed = strings.TrimSpace(line)
		case "left":
			r.left = true
		default:
			n, _ := strconv.Atoi(words[2])
			r.made = append(r.made, made{words[0], words[1], n})
		}
	}
}

func (r lived) judge(t *testing.T) {
	if err := r.wrong(); err != nil {
		t.Errorf("%s %v\n%s\nstatus %d, the command said %q, stderr:\n%s", r.failed, r.fault, err, r.status, r.said, r.stderr)
	}
}

// unharmed reports whether the failure did not affect the run's status.
func (r lived) unharmed() bool { return slices.Contains(r.life.status, r.status) }

// troubles are the statuses with which a run may end because of a failure. Each comes with a
// message.
var troubles = []int{69, 75, 76, 125, 126, 127}

func (r lived) wrong() error {
	var all []error
	wrong := func(is bool, what string, args ...any) {
		if is {
			all = append(all, fmt.Errorf(what, args...))
		}
	}
	begun, ended := strings.Count(r.said, "begun"), strings.Contains(r.said, "ended")
	wrong(r.hung, "it was still there after %s", long)
	wrong(!r.unharmed() && !slices.Contains(troubles, r.status), "no such status")
	wrong(!r.unharmed() && !strings.HasPrefix(r.stderr, "leaderrun: "), "no message")
	wrong(strings.Contains(r.stderr, "goroutine "), "a stack trace")
	wrong(r.status == 7 && !ended, "the command did not run to its end")
	// A guard that is killed may not have reported the start yet.
	wrong(strings.Contains(r.stderr, "nothing ran") && begun > 0 && r.happens == nil, "the command did run")
	wrong(begun > 1, "the command was started %d times", begun)
	wrong(r.left && r.status != 128+9, "the guard outlived the elector")
	wrong(len(r.alive) > 0, "alive at the end: %v", r.alive)
	wrong(r.next != nil, "the next leader: %v", r.next)
	for _, c := range r.made { // the command may have used up the process limit
		wrong(r.happens != nil && c.call == "clone:thread" && c.role != "ender", "the %s started a thread while the command ran", c.role)
	}
	return errors.Join(all...)
}
