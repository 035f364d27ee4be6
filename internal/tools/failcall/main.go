//go:build linux && amd64

// Failcall runs a leaderrun and makes one of its system calls fail, once:
//
//	failcall [-late] REPORT [ROLE CALL N ERRNO] -- COMMAND [ARG…]
//
// ROLE is elector, guard, ender: the guard's process after its exec, or command: the child of the
// guard until its exec, after which it is no longer traced. The N-th CALL of the role, counted over all its threads, is not
// carried out and returns ERRNO; a close is carried out, since it frees the descriptor
// whatever it returns. With -late only calls after a SIGUSR1 to failcall count; failcall
// creates an empty REPORT when it starts to count.
//
// REPORT gets a line "ROLE CALL N" for each kind of call, "failed …" for the call that
// failed, and "left …" if the guard was alive when the elector had ended. If a call is to
// fail, the report has only calls of its kind, and all starts of threads. The status is
// COMMAND's, as a shell returns it.
//
// With a seccomp filter the kernel stops only at these calls: to stop at all calls takes
// several times as long as the run. The filter recognises COMMAND's calls by the address of
// the caller: a Go program is linked below 4 GiB, and the programs it runs are not.
//
// strace would not do: it counts the calls of each thread separately, so a Go program would
// get the failure several times, at random, and so would its command.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const filtered = "-filtered" // in place of all other arguments: install the filter, and be COMMAND

const (
	exitUsage  = 2
	exitCannot = 3
)

// Roles, the first three in the order in which they start each other.
const (
	elector = iota
	guard
	command
	ender
)

var roles = []string{"elector", "guard", "command", "ender"}

// fault is the call to fail; none if n is 0.
type fault struct {
	role  int
	call  string
	n     int
	errno syscall.Errno
}

// thread is a traced thread.
type thread struct {
	role int
	// executed: it has executed the program since it was forked.
	executed bool
	// fails is what the current close is to return, 0 for its own result.
	fails syscall.Errno
}

type tracer struct {
	late    bool        // counting starts at SIGUSR1
	counts  atomic.Bool // whether calls count now
	fault   fault
	first   int // the elector
	threads map[int]*thread
	early   map[int]bool   // threads that are seen before their parent's report
	made    map[string]int // calls, by "role call"
	failed  string
	left    bool // a guard lived when the elector ended
	status  int
}

func init() { runtime.LockOSThread() } // only one thread can trace a process; and the first thread becomes COMMAND

func main() {
	args := os.Args[1:]
	if len(args) > 2 && args[0] == filtered {
		fmt.Fprintln(os.Stderr, "failcall:", become(args[1], args[2:]))
		os.Exit(exitCannot)
	}
	late := len(args) > 0 && args[0] == "-late"
	if late {
		args = args[1:]
	}
	end := slices.Index(args, "--")
	if end != 1 && end != 5 || len(args) == end+1 {
		fmt.Fprintln(os.Stderr, "usage: failcall [-late] REPORT [ROLE CALL N ERRNO] -- COMMAND [ARG...]")
		os.Exit(exitUsage)
	}
	t := &tracer{late: late, threads: map[int]*thread{}, early: map[int]bool{}, made: map[string]int{}}
	if end == 5 {
		f, ok := parse(args[1:5])
		if !ok {
			fmt.Fprintln(os.Stderr, "failcall: no such fault:", args[1:5])
			os.Exit(exitUsage)
		}
		t.fault = f
	}
	if late {
		t.countLater(args[0])
	}
	err := t.start(args[end+1:])
	if err == nil {
		t.run()
		err = os.WriteFile(args[0], []byte(t.report()), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "failcall:", err)
		os.Exit(exitCannot)
	}
	os.Exit(t.status)
}

// countLater starts to count at a SIGUSR1.
func (t *tracer) countLater(report string) {
	begin := make(chan os.Signal, 1)
	signal.Notify(begin, syscall.SIGUSR1)
	go func() {
		<-begin
		t.counts.Store(true)
		_ = os.WriteFile(report, nil, 0o600) // the waiting test goes on; if this fails, the test times out
	}()
}

func parse(words []string) (f fault, ok bool) {
	f = fault{role: slices.Index(roles, words[0]), call: words[1]}
	f.n, _ = strconv.Atoi(words[2])
	for f.errno = 1; f.errno < 134; f.errno++ {
		if unix.ErrnoName(f.errno) == words[3] {
			return f, f.role >= 0 && f.n > 0
		}
	}
	return f, false
}

// start starts the elector under the tracer. It is stopped and then seized, because only a
// seized process can be stopped and continued as if it were not traced.
func (t *tracer) start(argv []string) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	attr := &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Ptrace: true}}
	argv = append([]string{self, filtered, number(t.fault.call), path}, argv[1:]...)
	if t.first, err = syscall.ForkExec(self, argv, attr); err != nil {
		return err
	}
	t.threads[t.first] = &thread{role: elector}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(t.first, &status, 0, nil); err != nil {
		return err
	}
	const options = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_EXITKILL | unix.PTRACE_O_TRACEEXEC |
		unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACESECCOMP
	if err := ptrace(unix.PTRACE_DETACH, t.first, uintptr(syscall.SIGSTOP)); err != nil {
		return err
	}
	if err := ptrace(unix.PTRACE_SEIZE, t.first, options); err != nil {
		return err
	}
	return syscall.Kill(t.first, syscall.SIGCONT)
}

// become makes the kernel stop at calls with this number, "" for all, and executes the
// command.
func become(call string, argv []string) error {
	const number, caller = 0, 12 // offsets in struct seccomp_data; caller is the upper half of the address
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	is := func(value uint32, otherwise uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jf: otherwise}
	}
	filter := []unix.SockFilter{load(caller), is(0, 1)}
	if call != "" {
		nr, err := strconv.ParseUint(call, 10, 32)
		if err != nil {
			return err
		}
		filter = []unix.SockFilter{load(caller), is(0, 3), load(number), is(uint32(nr), 1)}
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_TRACE}, unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		return err
	}
	return syscall.Exec(argv[0], argv, os.Environ())
}

// run traces until no traced process is left.
func (t *tracer) run() {
	for {
		var status syscall.WaitStatus
		tid, err := syscall.Wait4(-1, &status, syscall.WALL, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return
		case status.Stopped():
			t.stopped(tid, status)
		default:
			t.ended(tid, status)
		}
	}
}

func (t *tracer) ended(tid int, status syscall.WaitStatus) {
	delete(t.threads, tid)
	if tid != t.first {
		return
	}
	t.left = len(t.threads) > 0
	t.status = status.ExitStatus()
	if status.Signaled() {
		t.status = 128 + int(status.Signal())
	}
}

// stopped continues a thread that has stopped for the tracer. An error means that it has
// been killed meanwhile.
func (t *tracer) stopped(tid int, status syscall.WaitStatus) {
	th := t.threads[tid]
	if th == nil {
		t.early[tid] = true // it waits until it is known
		return
	}
	sig, event := status.StopSignal(), int(status)>>16
	deliver := syscall.Signal(0)
	switch {
	case event == unix.PTRACE_EVENT_STOP && sig != syscall.SIGTRAP: // stopped, as far as the others can see
		_ = ptrace(unix.PTRACE_LISTEN, tid, 0)
		return
	case event == unix.PTRACE_EVENT_EXEC && th.role == command:
		_ = ptrace(unix.PTRACE_DETACH, tid, 0)
		delete(t.threads, tid)
		return
	case event == unix.PTRACE_EVENT_EXEC && th.role == guard:
		if th.executed {
			th.role = ender
		}
		th.executed = true
	case event == unix.PTRACE_EVENT_EXEC && tid == t.first: // become has done
		t.threads = map[int]*thread{tid: th}
		if !t.late {
			t.counts.Store(true)
		}
	case event == unix.PTRACE_EVENT_CLONE, event == unix.PTRACE_EVENT_FORK, event == unix.PTRACE_EVENT_VFORK:
		t.born(tid, event)
	case event == unix.PTRACE_EVENT_SECCOMP:
		t.begins(tid, th)
	case event != 0:
	case sig == syscall.SIGTRAP|0x80: // the end of a close
		change(tid, func(r *syscall.PtraceRegs) { r.Rax = uint64(-int64(th.fails)) })
		th.fails = 0
	default:
		deliver = sig
	}
	goOn(tid, th, deliver)
}

// goOn continues a thread, until the end of its call if the result is to be changed.
func goOn(tid int, th *thread, deliver syscall.Signal) {
	request := unix.PTRACE_CONT
	if th.fails != 0 {
		request = unix.PTRACE_SYSCALL
	}
	_ = ptrace(request, tid, uintptr(deliver))
}

// born learns from the parent what its child is: a thread of the same process, or the next
// process.
func (t *tracer) born(parent, event int) {
	var child uintptr
	if ptrace(unix.PTRACE_GETEVENTMSG, parent, uintptr(unsafe.Pointer(&child))) != nil {
		return
	}
	tid, role := int(child), t.threads[parent].role
	switch {
	case event != unix.PTRACE_EVENT_CLONE:
		role++
	case t.counts.Load() && t.fault.n > 0 && number(t.fault.call) != number("clone"): // otherwise begins counts it
		t.made[roles[role]+" clone:thread"]++
	}
	t.threads[tid] = &thread{role: role}
	if t.early[tid] {
		delete(t.early, tid)
		goOn(tid, t.threads[tid], 0)
	}
}

// begins handles the start of a system call.
func (t *tracer) begins(tid int, th *thread) {
	var regs syscall.PtraceRegs
	if !t.counts.Load() || syscall.PtraceGetRegs(tid, &regs) != nil {
		return
	}
	args := [...]uint64{regs.Rdi, regs.Rsi, regs.Rdx, regs.R10}
	name := nameOf(tid, regs.Orig_rax, args)
	key := roles[th.role] + " " + name
	t.made[key]++
	f := t.fault
	if th.role != f.role || name != f.call || t.made[key] != f.n {
		return
	}
	if name == "close" {
		th.fails = f.errno
	} else { // skip the call
		change(tid, func(r *syscall.PtraceRegs) { r.Orig_rax, r.Rax = ^uint64(0), uint64(-int64(f.errno)) })
	}
	t.failed = fmt.Sprintf("%s %d %s%s", key, f.n, unix.ErrnoName(f.errno), about(tid, name, args))
}

// about describes the object of a call: its path, or what its descriptor refers to.
func about(tid int, name string, args [4]uint64) string {
	at := args[1]
	switch name {
	case "execve", "readlink":
		at = args[0]
	case "openat", "newfstatat", "readlinkat", "unlinkat", "mkdirat", "fchmodat":
	default:
		return fmt.Sprintf("(%#x, %#x, %#x, %#x) %s", args[0], args[1], args[2], args[3], descriptor(tid, args[0]))
	}
	buf := make([]byte, 128)
	n, _ := syscall.PtracePeekData(tid, uintptr(at), buf)
	path, _, _ := strings.Cut(string(buf[:n]), "\x00")
	return " " + path
}

// descriptor returns what a descriptor refers to, "" if it is not open.
func descriptor(tid int, fd uint64) string {
	link, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tid, int32(fd)))
	return link
}

func change(tid int, how func(*syscall.PtraceRegs)) {
	var regs syscall.PtraceRegs
	if syscall.PtraceGetRegs(tid, &regs) == nil {
		how(&regs)
		_ = syscall.PtraceSetRegs(tid, &regs)
	}
}

func (t *tracer) report() string {
	var lines []string
	for key, n := range t.made {
		lines = append(lines, fmt.Sprintf("%s %d\n", key, n))
	}
	slices.Sort(lines)
	if t.failed != "" {
		lines = append(lines, "failed "+t.failed+"\n")
	}
	if t.left {
		lines = append(lines, "left the guard alive\n")
	}
	return strings.Join(lines, "")
}

func ptrace(request, tid int, data uintptr) error {
	if _, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, uintptr(request), uintptr(tid), 0, data, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
