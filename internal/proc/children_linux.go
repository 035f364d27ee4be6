package proc

import "syscall"

// ChildrenOf lists the direct children of a process, including zombies. If all is false there
// may be others, since /proc could not be read. The kernel lists children by thread.
func ChildrenOf(pid int) (pids []int, all bool) {
	tasks := "/proc/" + itoa(pid) + "/task"
	threads, err := readDir(tasks)
	if err != nil {
		return nil, false
	}
	for _, thread := range threads {
		list, err := readFile(tasks + "/" + thread + "/children")
		if err != nil {
			return childrenByParent(pid)
		}
		pids = appendNumbers(pids, list)
	}
	return pids, true
}

// InheritedChildren lists the children that this process had when its program was executed:
// exec leaves one thread, which has all of them. After an error there may be others.
func InheritedChildren() ([]int, error) {
	self := itoa(syscall.Getpid())
	list, err := readFile("/proc/self/task/" + self + "/children")
	if err != syscall.ENOENT {
		return appendNumbers(nil, list), err
	}
	pids, all := childrenByParent(syscall.Getpid())
	if !all {
		return pids, syscall.EIO
	}
	return pids, nil
}

// childrenByParent is ChildrenOf for kernels without lists of children
// (CONFIG_PROC_CHILDREN).
func childrenByParent(parent int) (pids []int, all bool) {
	names, err := readDir("/proc")
	if err != nil {
		return nil, false
	}
	all = true
	for _, name := range names {
		pid := appendNumbers(nil, []byte(name))
		if len(pid) != 1 {
			continue
		}
		found, err := parentOf(pid[0])
		switch err {
		case nil:
		case syscall.ENOENT, syscall.ESRCH: // it is gone
		case syscall.EPERM, syscall.EACCES: // another user's process, which this one could not kill
		default:
			all = false
		}
		if found == parent {
			pids = append(pids, pid[0])
		}
	}
	return pids, all
}

// Descends reports whether pid is ancestor or one of its descendants, and has not been
// reaped.
func Descends(pid, ancestor int) bool {
	for pid > 1 && pid != ancestor {
		parent, err := parentOf(pid)
		if err != nil {
			return false
		}
		pid = parent
	}
	return pid == ancestor
}

// parentOf returns a process's parent, 0 if that is outside this namespace.
func parentOf(pid int) (int, error) {
	const parent = 1
	return statNumber(pid, parent)
}

// SessionOf returns a process's session, also of one that has ended and was not reaped; 0 if it is
// unknown, or outside this namespace.
func SessionOf(pid int) int {
	const session = 3
	id, _ := statNumber(pid, session)
	return id
}

func statNumber(pid, field int) (int, error) {
	stat, err := readFile("/proc/" + itoa(pid) + "/stat")
	if number := appendNumbers(nil, statField(stat, field)); len(number) > 0 {
		return number[0], err
	}
	return 0, err
}

// statField returns a field of /proc/PID/stat. The state, which comes after the name, is number 0
// (proc_pid_stat(5) counts it as the third).
func statField(stat []byte, number int) []byte {
	begin, rest := 0, afterName(stat)
	for i, c := range rest {
		if c != ' ' && c != '\n' {
			continue
		}
		if number == 0 {
			return rest[begin:i]
		}
		begin = i + 1
		number--
	}
	return nil
}

// afterName returns the fields of /proc/PID/stat after the second one, which is a name in
// parentheses and may contain anything.
func afterName(stat []byte) []byte {
	for i := len(stat) - 2; i > 0; i-- {
		if stat[i] == ')' {
			return stat[i+2:]
		}
	}
	return nil
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}

// appendNumbers appends the numbers of a list that is separated by blanks, up to the first
// word that is no number.
func appendNumbers(to []int, list []byte) []int {
	n, digits := 0, false
	for _, c := range list {
		switch {
		case c >= '0' && c <= '9':
			n, digits = n*10+int(c-'0'), true
		case c == ' ' || c == '\n':
			if digits {
				to = append(to, n)
			}
			n, digits = 0, false
		default:
			return to
		}
	}
	if digits {
		to = append(to, n)
	}
	return to
}

func readFile(path string) ([]byte, error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	var all []byte
	buf := make([]byte, 4096)
	for {
		n, err := syscall.Read(fd, buf)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return all, err
		}
		all = append(all, buf[:n]...)
	}
}

// readDir lists the names in a directory.
func readDir(path string) (names []string, err error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	buf := make([]byte, 8192)
	for {
		n, err := syscall.ReadDirent(fd, buf)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return names, err
		}
		_, _, names = syscall.ParseDirent(buf[:n], -1, names)
	}
}
