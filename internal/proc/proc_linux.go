package proc

import (
	"runtime"
	"syscall"
	"unsafe"
)

const (
	clockBoottime   = 7
	prSetName       = 15
	prSetDumpable   = 4
	prSetSubreaper  = 36
	waitAll         = 0
	waitPid         = 1
	waitStopped     = 0x2
	waitExited      = 0x4
	waitContinued   = 0x8
	waitNoHang      = 0x1
	waitNoReap      = 0x1000000 // WNOWAIT
	timerAbsolute   = 1
	signalEvent     = 0
	sigDefault      = 0
	sigIgnore       = 1
	kernelSigsetLen = 8
)

// Now returns CLOCK_BOOTTIME in nanoseconds, which goes on while the machine sleeps.
func Now() int64 {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		panic("clock_gettime(CLOCK_BOOTTIME): " + errno.Error()) // every Linux since 2.6.39 has it
	}
	return ts.Nano()
}

// BootID returns the id of this boot of the kernel, since which Now counts; "" if /proc is
// missing.
func BootID() string {
	const length = 36 // and a newline
	id, _ := readFile("/proc/sys/kernel/random/boot_id")
	return string(id[:min(len(id), length)])
}

// AdoptOrphans makes this process inherit its orphaned descendants.
func AdoptOrphans() error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetSubreaper, 1, 0); errno != 0 {
		return errno
	}
	return nil
}

// DenyAccess keeps other processes of this user, unless it is root, from this one's
// descriptors, memory and environment. It also disables core dumps.
func DenyAccess() { syscall.RawSyscall(syscall.SYS_PRCTL, prSetDumpable, 0, 0) }

// RefusedCall tries the calls without which this process could not wait for a tree or kill it,
// and returns the name and the error of one that is refused, as by a seccomp filter. They
// change nothing: no process is its own child, and neither timers nor descriptors have the
// number -1.
func RefusedCall() (name string, err error) {
	const none = ^uintptr(0)
	var now syscall.Timespec
	spec := timerSpec(0)
	self := uintptr(syscall.Getpid())
	_, _, poll := syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	_, _, kill := syscall.RawSyscall(syscall.SYS_KILL, self, 0, 0)
	_, _, wait := syscall.RawSyscall6(syscall.SYS_WAIT4, self, 0, syscall.WNOHANG, 0, 0, 0)
	_, _, waitID := syscall.RawSyscall6(syscall.SYS_WAITID, waitPid, self, 0, waitExited|waitNoHang|waitNoReap, 0, 0)
	_, _, timer := syscall.RawSyscall6(syscall.SYS_TIMER_SETTIME, none, 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	_, _, timerFD := syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, none, 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	for _, call := range []struct {
		name       string
		got, usual syscall.Errno
	}{
		{"ppoll", poll, 0},
		{"kill", kill, 0},
		{"wait4", wait, syscall.ECHILD},
		{"waitid", waitID, syscall.ECHILD},
		{"timer_settime", timer, syscall.EINVAL},
		{"timerfd_settime", timerFD, syscall.EBADF},
	} {
		if call.got != call.usual && call.got != syscall.EINTR {
			return call.name, call.got
		}
	}
	return "", nil
}

// MayLoseChildren reports whether this process has the right to change its user, which a child
// inherits, but not the right to signal a child that has done so. The kernel then does not kill the
// child with its parent, either.
func MayLoseChildren() bool {
	const version3, kill, setUID = 0x20080522, 1 << 5, 1 << 7 // capabilities(7)
	header := struct {
		version uint32
		pid     int32
	}{version: version3}
	var sets [2]struct{ effective, permitted, inheritable uint32 }
	_, _, errno := syscall.RawSyscall(syscall.SYS_CAPGET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&sets)), 0)
	return errno == 0 && sets[0].permitted&setUID != 0 && sets[0].effective&kill == 0
}

// HasTerminal reports whether this process has a controlling terminal. A file /dev/tty may be missing
// where there is one.
func HasTerminal() bool {
	const ttyNumber = 4
	stat, _ := readFile("/proc/self/stat")
	number := statField(stat, ttyNumber)
	return len(number) > 0 && number[0] != '0'
}

// HasDefaultAction reports whether the process neither catches nor ignores the signal, whose number is
// below 32.
func HasDefaultAction(pid int, sig syscall.Signal) bool {
	const ignored, caught = 30, 31
	stat, _ := readFile("/proc/" + itoa(pid) + "/stat")
	for _, field := range []int{ignored, caught} {
		if set := appendNumbers(nil, statField(stat, field)); len(set) > 0 && set[0]>>(sig-1)&1 == 1 {
			return false
		}
	}
	return true
}

// SetName sets the process's name in ps and for killall, of at most 15 bytes.
func SetName(name string) {
	b, err := syscall.BytePtrFromString(name)
	if err == nil {
		syscall.RawSyscall(syscall.SYS_PRCTL, prSetName, uintptr(unsafe.Pointer(b)), 0)
	}
}

// Ignore ignores the signal. In a child that package syscall starts it has its default action
// again, if the Go runtime handles it. The runtime handles all signals except HUP and INT if
// the caller ignores them, and except a terminal's stop signals.
func Ignore(sig syscall.Signal) { setAction(sig, sigIgnore) }

func setAction(sig syscall.Signal, handler uintptr) {
	action := struct {
		handler, flags, restorer uintptr
		mask                     uint64
	}{handler: handler}
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, kernelSigsetLen, 0, 0)
}

// DieOf ends this process by the signal's default action, without a core dump. It returns if
// the kernel does not do that: for the first process of a namespace.
func DieOf(sig syscall.Signal) {
	const unblock = 1
	runtime.LockOSThread()
	DenyAccess()
	setAction(sig, sigDefault)
	mask := uint64(1) << (sig - 1)
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, unblock, uintptr(unsafe.Pointer(&mask)), 0, kernelSigsetLen, 0, 0)
	// To this thread, which then has it when the call returns.
	syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(syscall.Getpid()), uintptr(syscall.Gettid()), uintptr(sig))
}

// CloseOnExec closes all descriptors from first on at the next execve: the caller may wait for the
// end of one that it has opened for the command. Before Linux 5.11 these are the first thousand.
func CloseOnExec(first int) {
	const closeRange, closeOnExec, usual = 436, 1 << 2, 1024
	if _, _, errno := syscall.RawSyscall(closeRange, uintptr(first), uintptr(^uint32(0)), closeOnExec); errno == 0 {
		return
	}
	for fd := first; fd < usual; fd++ {
		syscall.CloseOnExec(fd)
	}
}

// WaitChild blocks until there is a status for Reap, or no child is left.
func WaitChild() { waitID(waitAll, 0, waitExited|waitStopped|waitContinued) }

// waitID waits for a child without reaping it. In siginfo_t the process id follows three
// 32-bit words, and one of padding if pointers have 64 bits.
func waitID(kind uintptr, id int, events uintptr) (pid int) {
	var info [32]int32
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, kind, uintptr(id), uintptr(unsafe.Pointer(&info)), events|waitNoReap, 0, 0)
		switch {
		case errno == syscall.EINTR:
		case errno != 0:
			return 0
		default:
			return int(info[2+unsafe.Sizeof(uintptr(0))/unsafe.Sizeof(info[0])])
		}
	}
}

// AwaitEnd blocks until the child has ended, without reaping it.
func AwaitEnd(pid int) { waitID(waitPid, pid, waitExited) }

// Ended reports whether the child has ended, without reaping it.
func Ended(pid int) bool { return waitID(waitPid, pid, waitExited|waitNoHang) == pid }

// Sleep makes the calling thread sleep for so many nanoseconds, or less if a signal comes.
func Sleep(nanoseconds int64) {
	ts := syscall.NsecToTimespec(nanoseconds)
	_ = syscall.Nanosleep(&ts, nil)
}

// ChildrenKnown reports whether /proc shows this process and its children. It may be missing,
// or belong to another namespace.
func ChildrenKnown() bool {
	var link [20]byte
	n, err := syscall.Readlink("/proc/self", link[:])
	return err == nil && string(link[:n]) == itoa(syscall.Getpid())
}

// Hurry gives this process group the highest priority (nice -20), if the user may do that,
// usually only root. All threads get it: if one thread ran before the others could go to
// sleep, the runtime would start new ones.
func Hurry() { _ = hurry(syscall.PRIO_PGRP, 0) }

// HurryThread is Hurry only for the calling goroutine, until back is called.
func HurryThread() (back func()) {
	runtime.LockOSThread()
	before, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		return runtime.UnlockOSThread
	}
	_ = hurry(syscall.PRIO_PROCESS, 0)
	return func() {
		const zero = 20 // the call returns 20 less the nice value
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, zero-before)
		runtime.UnlockOSThread()
	}
}

func hurry(which, id int) error {
	const first = -20
	return syscall.Setpriority(which, id, first)
}

// StayInMemory keeps in memory what this process has used and will use, if the user may do that:
// with CAP_IPC_LOCK, or without a limit of locked memory (RLIMIT_MEMLOCK). When memory is short,
// the kernel drops pages of programs. To run them again needs a disk, which may be slow then, or
// gone. Pages that were not used are not read: Go reserves much that it never uses.
func StayInMemory() {
	const current, future, onFault = 1, 2, 4 // MCL_CURRENT, MCL_FUTURE; MCL_ONFAULT, since Linux 4.4
	_ = syscall.Mlockall(current | future | onFault)
}

// GiveWay gives this process group a low priority (nice 10).
func GiveWay() {
	const late = 10
	_ = syscall.Setpriority(syscall.PRIO_PGRP, 0, late)
}

// Inherited reports whether this process got the descriptor from its caller, so that its
// children will get it, too: Go opens everything close-on-exec.
func Inherited(fd int) bool {
	flags, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
	return errno == 0 && flags&syscall.FD_CLOEXEC == 0
}

// Alarm is a file descriptor that becomes readable at a point in time, and timers of the
// kernel that continue this process from then on if it is stopped. Each timer does so once:
// the kernel does not repeat a timer if its signal is ignored, as SIGCONT is, or removed by
// a SIGSTOP.
type Alarm struct {
	fd     int
	timers []timer
}

// afterAlarm returns how long after the alarm the i-th timer goes off: at first every 20 ms,
// later each time twice as long after the alarm as the last one.
func afterAlarm(i int) int64 {
	const between, evenly = 20_000_000, 12
	if i <= evenly {
		return int64(i) * between
	}
	return evenly * between << (i - evenly)
}

// NewAlarm returns an alarm that is not set. If this process is stopped again and again, the
// alarm continues it so many times; the 25th time is a quarter of an hour after the first.
func NewAlarm(times int) (*Alarm, error) {
	fd, _, errno := syscall.RawSyscall(syscall.SYS_TIMERFD_CREATE, clockBoottime, syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if errno != 0 {
		return nil, errno
	}
	a := &Alarm{fd: int(fd), timers: make([]timer, times)}
	for i := range a.timers {
		if err := a.timers[i].create(syscall.SIGCONT); err != nil {
			_ = syscall.Close(a.fd) // the timers end with the process
			return nil, err
		}
	}
	return a, nil
}

// Set moves the alarm to a time of Now. An alarm that has gone off is silent until then.
func (a *Alarm) Set(at int64) {
	spec := timerSpec(max(at, 1))
	syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, uintptr(a.fd), timerAbsolute, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	for i, t := range a.timers {
		t.set(max(at, 1) + afterAlarm(i))
	}
}

// Deadline is a time at which the kernel kills this process.
type Deadline struct{ timer timer }

// NewDeadline returns a deadline that is not set.
func NewDeadline() (*Deadline, error) {
	d := &Deadline{}
	return d, d.timer.create(syscall.SIGKILL)
}

// Set moves the deadline to a time of Now.
func (d *Deadline) Set(at int64) { d.timer.set(max(at, 1)) }

// Clear removes the deadline.
func (d *Deadline) Clear() { d.timer.set(0) }

// timer is a timer of the kernel that sends this process a signal.
type timer int32

func (t *timer) create(sig syscall.Signal) error {
	event := struct {
		value          uintptr
		signal, notify int32
		rest           [48]byte
	}{signal: int32(sig), notify: signalEvent}
	_, _, errno := syscall.RawSyscall(syscall.SYS_TIMER_CREATE, clockBoottime, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(t)))
	if errno != 0 {
		return errno
	}
	return nil
}

// set makes the timer go off at a time of Now; 0 means never.
func (t timer) set(at int64) {
	spec := timerSpec(at)
	syscall.RawSyscall6(syscall.SYS_TIMER_SETTIME, uintptr(t), timerAbsolute, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
}

// timerSpec returns a struct itimerspec for one point in time.
func timerSpec(at int64) (spec struct{ interval, value syscall.Timespec }) {
	spec.value = syscall.NsecToTimespec(at)
	return spec
}

// WatchWallClock returns a descriptor that becomes readable when the wall clock is set or the
// machine wakes from sleep. A read then returns ECANCELED. It does not block (O_NONBLOCK).
func WatchWallClock() (fd int, err error) {
	const clockRealtime, cancelOnSet = 0, 2
	r, _, errno := syscall.RawSyscall(syscall.SYS_TIMERFD_CREATE, clockRealtime, syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if errno != 0 {
		return -1, errno
	}
	never := struct{ interval, value syscall.Timespec }{value: syscall.NsecToTimespec(1<<63 - 1)}
	_, _, errno = syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, r, timerAbsolute|cancelOnSet, uintptr(unsafe.Pointer(&never)), 0, 0, 0)
	if errno != 0 {
		_ = syscall.Close(int(r))
		return -1, errno
	}
	return int(r), nil
}

// Poll waits until one of the file descriptors is readable or at its end, or the alarm goes
// off, or a signal comes. It reports which descriptors are ready. It ignores descriptors below 0.
func (a *Alarm) Poll(fds ...int) (ready []bool) {
	type pollFD struct {
		fd              int32
		events, revents int16
	}
	const readable = 1 // POLLIN; the end and errors are always reported
	set := []pollFD{{fd: int32(a.fd), events: readable}}
	for _, fd := range fds {
		set = append(set, pollFD{fd: int32(fd), events: readable})
	}
	ready = make([]bool, len(fds))
	_, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&set[0])), uintptr(len(set)), 0, 0, 0, 0)
	for i := range fds {
		ready[i] = errno == 0 && set[i+1].revents != 0
	}
	return ready
}

// Leash has the kernel send SIGKILL to the process group when the other end of this pipe, which
// carries no data, is closed, by the death of the last process that has it.
func Leash(fd, group int) {
	const setSignal = 10
	fcntl(fd, syscall.F_SETOWN, uintptr(-group))
	fcntl(fd, setSignal, uintptr(syscall.SIGKILL))
	fcntl(fd, syscall.F_SETFL, syscall.O_ASYNC|syscall.O_NONBLOCK)
}

// Unleash undoes Leash.
func Unleash(fd int) { fcntl(fd, syscall.F_SETFL, syscall.O_NONBLOCK) }

func fcntl(fd, command int, value uintptr) {
	syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(fd), uintptr(command), value)
}

// Mute points the file descriptors at /dev/null.
func Mute(fds ...int) {
	null, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	for _, fd := range fds {
		_ = syscall.Dup3(null, fd, 0)
	}
	_ = syscall.Close(null)
}
