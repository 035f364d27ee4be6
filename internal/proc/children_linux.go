package proc

import "syscall"

// ChildrenOf lists the direct children of a process, zombies among them. The
// kernel keeps them by thread.
func ChildrenOf(pid int) []int {
	tasks := "/proc/" + itoa(pid) + "/task"
	var pids []int
	for _, thread := range readDir(tasks) {
		list, ok := readFile(tasks + "/" + thread + "/children")
		if !ok {
			return childrenByParent(pid)
		}
		pids = appendNumbers(pids, list)
	}
	return pids
}

// InheritedChildren lists the children that this process had when it was
// executed: exec leaves one thread, and gives it all children.
func InheritedChildren() []int {
	self := itoa(syscall.Getpid())
	list, ok := readFile("/proc/self/task/" + self + "/children")
	if !ok {
		return childrenByParent(syscall.Getpid())
	}
	return appendNumbers(nil, list)
}

// childrenByParent finds them where the kernel has no children files
// (CONFIG_PROC_CHILDREN): the fourth field of stat is the parent's id. The
// second one, a name in parentheses, may contain anything.
func childrenByParent(parent int) []int {
	var pids []int
	for _, name := range readDir("/proc") {
		pid := appendNumbers(nil, []byte(name))
		if len(pid) != 1 {
			continue
		}
		stat, _ := readFile("/proc/" + name + "/stat")
		end := len(stat) - 1
		for end >= 0 && stat[end] != ')' {
			end--
		}
		if end < 0 || len(stat) < end+4 {
			continue
		}
		if rest := appendNumbers(nil, stat[end+4:]); len(rest) > 0 && rest[0] == parent {
			pids = append(pids, pid[0])
		}
	}
	return pids
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}

// appendNumbers appends the numbers of a list separated by blanks, up to the
// first thing that is none.
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

func readFile(path string) ([]byte, bool) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
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
			return all, err == nil
		}
		all = append(all, buf[:n]...)
	}
}

// readDir lists the names in a directory.
func readDir(path string) []string {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(fd)
	var names []string
	buf := make([]byte, 8192)
	for {
		n, err := syscall.ReadDirent(fd, buf)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return names
		}
		_, _, names = syscall.ParseDirent(buf[:n], -1, names)
	}
}
