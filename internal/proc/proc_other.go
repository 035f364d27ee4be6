//go:build !linux

package proc

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Now returns CLOCK_MONOTONIC in nanoseconds. On darwin it goes on while the machine sleeps.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("clock_gettime(CLOCK_MONOTONIC): " + err.Error())
	}
	return ts.Nano()
}

// BootID returns the id of this boot of the kernel, "" if it is unknown. It does not use
// kern.boottime, which changes when the wall clock is set.
func BootID() string {
	id, _ := unix.Sysctl("kern.bootsessionuuid")
	return id
}

// Hurry does nothing: priorities are per process here, and the command would
// inherit the guard's.
func Hurry() {}

// KillChild does nothing: without pidfds another process could get the signal.
func KillChild(int, int) {}

// StayInMemory does nothing: the systems differ in what may be locked.
func StayInMemory() {}

// GiveWay does nothing, as Hurry.
func GiveWay() {}

// AdoptOrphans does nothing: only Linux has subreapers.
func AdoptOrphans() error { return nil }

// DenyAccess does nothing here.
func DenyAccess() {}

// MayLoseChildren reports false: this system has no capabilities.
func MayLoseChildren() bool { return false }

// HasTerminal reports whether this process has a controlling terminal.
func HasTerminal() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	_ = tty.Close()
	return true
}

// HasDefaultAction does nothing here: nobody can ask.
func HasDefaultAction(int, syscall.Signal) bool { return true }

// SetName does nothing here.
func SetName(string) {}

// Ignore drops the signal. It catches it for that, since a child would inherit an ignored
// signal.
func Ignore(sig syscall.Signal) {
	if !signal.Ignored(sig) {
		signal.Notify(make(chan os.Signal, 1), sig)
	}
}

// DieOf does nothing here: leaderrun exits with 128+n.
func DieOf(syscall.Signal) {}

// WaitChild waits for a moment: there is no portable way to wait for a child without reaping
// it.
func WaitChild() { time.Sleep(5 * time.Millisecond) }

// Sleep sleeps for some nanoseconds.
func Sleep(nanoseconds int64) { time.Sleep(time.Duration(nanoseconds)) }

// AwaitEnd waits a moment, as WaitChild.
func AwaitEnd(int) { WaitChild() }

// Ended reports false: there is no portable way to know it without reaping the child.
func Ended(int) bool { return false }

// ChildrenKnown reports true: nothing here depends on them.
func ChildrenKnown() bool { return true }

// RefusedCall knows of no filter.
func RefusedCall() (name string, err error) { return "", nil }

// Inherited reports whether this process got the descriptor from its caller, so that its
// children will get it, too: Go opens everything close-on-exec.
func Inherited(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0
}

// ChildrenOf lists nothing: children are not known here.
func ChildrenOf(int) (pids []int, all bool) { return nil, true }

// SessionOf knows no sessions.
func SessionOf(int) int { return 0 }

// Descends knows no parents.
func Descends(pid, ancestor int) bool { return pid == ancestor }

// Children is a list that is always empty: children are not known here.
type Children struct{}

// OpenChildren opens nothing.
func OpenChildren() (*Children, error) { return &Children{}, nil }

// InheritedChildren lists nothing either.
func InheritedChildren() ([]int, error) { return nil, nil }

// Deadline does nothing: only on Linux the kernel kills a process at a given time.
type Deadline struct{}

// NewDeadline returns a deadline.
func NewDeadline() (*Deadline, error) { return &Deadline{}, nil }

// Set does nothing.
func (*Deadline) Set(int64) {}

// Clear does nothing.
func (*Deadline) Clear() {}

// Alarm is a time at which Poll returns.
type Alarm struct{ at int64 }

// NewAlarm returns an alarm that is not set.
func NewAlarm(int) (*Alarm, error) { return &Alarm{}, nil }

// Set moves the alarm to a time of Now.
func (a *Alarm) Set(at int64) { a.at = at }

// Poll waits until one of the file descriptors is readable or at its end, or the alarm goes
// off. It reports which descriptors are ready.
func (a *Alarm) Poll(fds ...int) (ready []bool) {
	set := make([]unix.PollFd, len(fds))
	for i, fd := range fds {
		set[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	atMost := -1
	if a.at != 0 {
		atMost = int(max(0, a.at-Now())/int64(time.Millisecond)) + 1
	}
	n, err := unix.Poll(set, atMost)
	if err == nil && n == 0 {
		a.at = 0
	}
	ready = make([]bool, len(fds))
	for i := range fds {
		ready[i] = err == nil && set[i].Revents != 0
	}
	return ready
}

// Leash does nothing here.
func Leash(int, int) {}

// Unleash does nothing either.
func Unleash(int) {}

// Mute points the file descriptors at /dev/null.
func Mute(fds ...int) {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	for _, fd := range fds {
		_ = unix.Dup2(null, fd)
	}
	_ = unix.Close(null)
}
