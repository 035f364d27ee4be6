package proc

import "syscall"

// Children lists the children of this process from a file that stays open, so that a tree can
// be killed even if no descriptor is left. One goroutine may use it at a time.
type Children struct {
	fd   int // -1: the kernel has no such files
	list []byte
	pids []int

	rounds int // of kill
	met    int // in the last round of Kill
	still  int // rounds of Kill in which no more came
}

// OpenChildren opens the list of the first thread, which has the adopted orphans and the
// children that it started itself: the kernel lists children by thread.
func OpenChildren() (*Children, error) { return childrenOfThread(syscall.Getpid()) }

func childrenOfThread(id int) (*Children, error) {
	fd, err := syscall.Open("/proc/self/task/"+itoa(id)+"/children", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err == syscall.ENOENT {
		return &Children{fd: -1}, nil
	}
	return &Children{fd: fd, list: make([]byte, 4096)}, err
}

// List lists the children, including zombies. The slice is valid until the next call. If all
// is false there may be others.
func (c *Children) List() (pids []int, all bool) {
	if c.fd < 0 {
		return childrenByParent(syscall.Getpid())
	}
	_, _ = syscall.Seek(c.fd, 0, 0)
	return c.more()
}

// more lists those that have come since the last call of List or of more, if none has been
// reaped since: the kernel appends them, and counts the ones that it has listed.
func (c *Children) more() (pids []int, all bool) {
	if c.fd < 0 {
		return nil, true
	}
	for length := 0; ; {
		if length == len(c.list) {
			c.list = append(c.list, make([]byte, len(c.list))...)
		}
		n, err := syscall.Read(c.fd, c.list[length:])
		if err == syscall.EINTR {
			continue
		}
		length += max(n, 0)
		if err != nil || n == 0 {
			c.pids = appendNumbers(c.pids[:0], c.list[:length])
			return c.pids, err == nil
		}
	}
}

// generations is the number of rounds of kill after which a tree that still lives counts as one
// that forks faster than it is killed.
const generations = 32

// stillness is the number of rounds in a row without a new child after which it is time to reap
// although a child lives: it may sleep uninterruptibly.
const stillness = 8

// patience is how long, in nanoseconds, Kill goes on with children that come.
var patience int64 = 10_000_000

// Round is what a round of Kill has met.
type Round struct {
	Met  []int // the children
	All  bool  // there are no others
	Came bool  // there are more than in the round before
	Reap bool  // it is time to reap those that have ended
}

// Kill sends SIGKILL to the children, except to those for which spare is true. A child that
// leads its process group, or is in the given one, is killed with its group: no fork escapes
// a signal to a group. Where processes fork and exit, Kill goes on with those that come, for
// a while.
//
// It is time to reap when all have ended, or no more come. Until then zombies are left: they take
// places in their user's process limit, which the living would use to fork, and to reap one costs
// several times as much processor time as to leave it. The caller must not reap during a round:
// only until a child is reaped its id, and its group's, cannot belong to others.
func (c *Children) Kill(group int, spare func(pid int) bool) Round {
	var met []int
	pids, all := c.List() // which takes as long as patience, if there are tens of thousands
	for end := Now() + patience; len(pids) > 0; {
		met = append(met, c.kill(pids, group, spare)...)
		pids, _ = c.more()
		if Now() >= end {
			break
		}
	}
	seen := len(pids) == 0
	came := len(met) > c.met
	c.still++
	if came {
		c.still = 0
	}
	c.met = len(met)
	return Round{Met: met, All: all && seen, Came: came, Reap: c.still >= stillness || seen && allEnded(met)}
}

// allEnded looks at the newest first, as it is the likeliest to live.
func allEnded(pids []int) bool {
	for i := len(pids) - 1; i >= 0; i-- {
		if !Ended(pids[i]) {
			return false
		}
	}
	return true
}

// kill sends SIGKILL to children.
//
// The newest child comes first. If processes fork and exit, the older ones are zombies, and
// the living ones would fork on while Kill went through those. Killed processes need the
// processor to die, so they get a high priority, but only once all have their signal: earlier they
// would fork, or keep this process from sending the other signals.
//
// After so many generations the whole tree is stopped before each further round.
func (c *Children) kill(pids []int, group int, spare func(pid int) bool) (met []int) {
	for i := len(pids) - 1; i >= 0; i-- {
		if !spare(pids[i]) {
			met = append(met, pids[i])
		}
	}
	if c.rounds++; c.rounds > generations {
		for _, pid := range met {
			if !Ended(pid) {
				_ = syscall.Kill(pid, syscall.SIGSTOP)
				stopBelow(pid)
			}
		}
	}
	groups := make([]int, len(met)) // 0: only the child
	killed := false                 // whether group was signalled: once is enough, and it is slow
	for i, pid := range met {
		if g, err := syscall.Getpgid(pid); err == nil && (g == pid || g == group && g != 0 && !killed) { // 0: of another pid namespace
			groups[i], killed = g, killed || g == group
			_ = syscall.Kill(-g, syscall.SIGKILL)
		} else {
			_ = syscall.Kill(pid, syscall.SIGKILL) // not reaped, so its id is still its own
		}
	}
	for i, pid := range met {
		var err error
		if groups[i] != 0 {
			err = hurry(syscall.PRIO_PGRP, groups[i])
		} else {
			err = hurry(syscall.PRIO_PROCESS, pid)
		}
		if err != nil { // this user may not, for any of them
			break
		}
	}
	return met
}

// KillChild sends SIGKILL to the process if it is a child of parent. Nobody may have reaped the
// parent. It needs pidfds, which Linux has since 5.3.
func KillChild(pid, parent int) { signalChild(pid, parent, syscall.SIGKILL) }

// stopBelow stops the descendants of a stopped process. That one neither forks nor reaps, so
// its list of children is complete, and their ids cannot be others'.
func stopBelow(parent int) {
	pids, _ := ChildrenOf(parent)
	for _, pid := range pids {
		if signalChild(pid, parent, syscall.SIGSTOP) {
			stopBelow(pid)
		}
	}
}

// signalChild signals the process if it is still a child of parent, and reports whether it is. A
// pidfd makes sure that no other process with the same id gets the signal.
func signalChild(pid, parent int, sig syscall.Signal) bool {
	const pidfdSendSignal, pidfdOpen = 424, 434
	fd, _, errno := syscall.RawSyscall(pidfdOpen, uintptr(pid), 0, 0)
	if errno != 0 {
		return false
	}
	defer syscall.Close(int(fd))
	if found, err := parentOf(pid); err != nil || found != parent {
		return false
	}
	_, _, errno = syscall.RawSyscall6(pidfdSendSignal, fd, uintptr(sig), 0, 0, 0, 0)
	return errno == 0
}
