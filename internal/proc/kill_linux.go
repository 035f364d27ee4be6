package proc

import "syscall"

// Children lists the children of this process from a file that stays open, so that a tree can
// be killed even if no descriptor is left. One goroutine may use it at a time.
type Children struct {
	fd   int // -1: the kernel has no such files
	list []byte
	pids []int

	rounds int // of Kill
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
	for length := 0; ; {
		if length == len(c.list) {
			c.list = append(c.list, make([]byte, len(c.list))...)
		}
		n, err := syscall.Pread(c.fd, c.list[length:], int64(length))
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

// generations is the number of rounds of Kill after which a tree that still lives is taken
// for one that forks faster than it is killed.
const generations = 32

// Kill sends SIGKILL to the children, except those for which spare is true, and returns them.
// A child that leads its process group, or is in group, is killed with its group: no fork
// escapes a signal to a group. The caller must not reap meanwhile: until a child is reaped,
// neither its id nor its group's can be used again.
//
// The newest child comes first. If processes fork and exit, the older ones are zombies, and
// the living ones would fork on while Kill went through those. Killed processes need the
// processor to die, so they get a high priority, but only once all have their signal: earlier they
// would fork, or keep this process from sending the other signals.
//
// After several rounds (see generations) the whole tree is stopped before each further round.
// A stopped process counts towards its user's process limit, while a dead one makes room for
// the next.
func (c *Children) Kill(group int, spare func(pid int) bool) (met []int, all bool) {
	pids, all := c.List()
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
		if g, err := syscall.Getpgid(pid); err == nil && (g == pid || g == group && !killed) {
			groups[i], killed = g, killed || g == group
			_ = syscall.Kill(-g, syscall.SIGKILL)
		} else {
			_ = syscall.Kill(pid, syscall.SIGKILL) // not reaped, so its id is still its own
		}
	}
	for i, pid := range met {
		if groups[i] != 0 {
			hurry(syscall.PRIO_PGRP, groups[i])
		} else {
			hurry(syscall.PRIO_PROCESS, pid)
		}
	}
	return met, all
}

// stopBelow stops the descendants of a stopped process. That one neither forks nor reaps, so
// its list of children is complete, and their ids cannot be others'.
func stopBelow(parent int) {
	pids, _ := ChildrenOf(parent)
	for _, pid := range pids {
		if stopChild(pid, parent) {
			stopBelow(pid)
		}
	}
}

// stopChild stops the process if it is still a child of parent, and reports whether it is. A
// pidfd makes sure that no other process with the same id gets the signal. Linux has pidfds
// since 5.3.
func stopChild(pid, parent int) bool {
	const pidfdSendSignal, pidfdOpen = 424, 434
	fd, _, errno := syscall.RawSyscall(pidfdOpen, uintptr(pid), 0, 0)
	if errno != 0 {
		return false
	}
	defer syscall.Close(int(fd))
	if found, err := parentOf(pid); err != nil || found != parent {
		return false
	}
	_, _, errno = syscall.RawSyscall6(pidfdSendSignal, fd, uintptr(syscall.SIGSTOP), 0, 0, 0, 0)
	return errno == 0
}
