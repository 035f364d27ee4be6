package proc

import "syscall"

// Children lists the children of this process from a file that stays open: a
// tree must be found and killed also where no descriptor is left.
type Children struct {
	fd   int // -1: the kernel has no such files
	list []byte
	pids []int

	rounds int // of Kill
}

// OpenChildren opens the list. The kernel keeps children by thread: the orphans
// that are adopted, and what the first thread has started, are with the first one.
func OpenChildren() (*Children, error) { return childrenOfThread(syscall.Getpid()) }

func childrenOfThread(id int) (*Children, error) {
	fd, err := syscall.Open("/proc/self/task/"+itoa(id)+"/children", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err == syscall.ENOENT {
		return &Children{fd: -1}, nil
	}
	return &Children{fd: fd, list: make([]byte, 4096)}, err
}

// List lists them, zombies among them, until the next call. Unless all is true,
// there may be others.
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

// generations is after how many rounds of Kill a tree that lives counts as one that forks
// faster than its generations are killed.
const generations = 32

// Kill sends SIGKILL to the children, except to those for which spare is true, and returns
// them. A child that leads its process group, or is in the given one, is killed with its
// group: no fork escapes a signal to a group. The caller must not reap meanwhile: until a
// child is reaped, neither its id nor its group's is used again.
//
// The newest child comes first: where processes fork and exit the older ones are zombies,
// and while Kill went through those the living ones would fork on. The killed go first on
// the processor, which they need to die, but only once all have their signal: earlier they
// would use it to fork, or keep this process from sending the other signals.
//
// After so many generations all of the tree is stopped before each further round: a
// stopped process counts for its user's process limit, while a dead one makes room for the
// next.
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
	groups := make([]int, len(met)) // 0: the child alone
	killed := false                 // the given group: once, for each signal to it goes through all its members
	for i, pid := range met {
		if g, err := syscall.Getpgid(pid); err == nil && (g == pid || g == group && !killed) {
			groups[i], killed = g, killed || g == group
			_ = syscall.Kill(-g, syscall.SIGKILL)
		} else {
			_ = syscall.Kill(pid, syscall.SIGKILL) // if it has ended it is still a zombie
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

// stopBelow stops the descendants of a process that is stopped: it forks and reaps
// no more, so its list of children is whole and their ids are theirs.
func stopBelow(parent int) {
	pids, _ := ChildrenOf(parent)
	for _, pid := range pids {
		if stopChild(pid, parent) {
			stopBelow(pid)
		}
	}
}

// stopChild stops the process if it is still the parent's child, and reports whether
// it is. The pidfd keeps the signal from a process that got the id meanwhile. Before Linux
// 5.3 there are no pidfds.
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
