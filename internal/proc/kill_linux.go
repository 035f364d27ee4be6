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

// generations is how many rounds of Kill a tree that does not grow may take; those
// that were measured have 40 generations at most.
const generations = 32

// Kill sends SIGKILL to the children that spare does not name, and to the process
// groups that they lead or that are the given one: no fork escapes from a signal
// to a group. It returns those that it met. The caller must not reap meanwhile: until a
// child is reaped, neither its id nor its group's is used again. The newest come first:
// where processes fork and exit the older ones are zombies, and those that live fork on
// while they are gone through. What is to die needs the processor for that, and gets it
// first; before the signal, it would fork with it, and before those of the others, it would
// keep this process from sending them.
//
// A tree that lives after so many rounds forks faster than its generations are
// killed. Then all of it is stopped before each further round: a stopped process
// counts for its user's process limit, while a dead one makes room for the next.
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
	for i, pid := range met {
		if g, err := syscall.Getpgid(pid); err == nil && (g == pid || g == group) {
			groups[i] = g
			_ = syscall.Kill(-g, syscall.SIGKILL)
		} else {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended: then it is a zombie still
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
// it is. The descriptor keeps the signal from a process that got the id meanwhile.
// Before Linux 5.3 there are none.
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
