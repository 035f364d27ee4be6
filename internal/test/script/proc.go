//go:build linux

package script

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// markName is the variable that says to which run of which script a process belongs.
// Descendants inherit it.
const markName = "SCRIPTTEST_RUN"

func (s *script) mark(name string) string { return s.workDir + "#" + name }

// marked returns the living processes of a run, or of the whole script if name
// is empty.
func (s *script) marked(name string) []int {
	want := []byte(markName + "=" + s.mark(name))
	if name != "" {
		want = append(want, 0)
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*") // fails only on a bad pattern
	var pids []int
	for _, dir := range dirs {
		env, err := environOf(dir)
		if err != nil {
			continue // it has ended, or is another user's
		}
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if bytes.Contains(append([]byte{0}, env...), append([]byte{0}, want...)) && Lives(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// environOf reads the environment of a process. During an exec it is empty for a moment. Kernel
// threads, which have no program, never have one.
func environOf(dir string) (env []byte, err error) {
	for range 20 {
		if env, err = os.ReadFile(dir + "/environ"); err != nil || len(env) > 0 {
			break
		}
		if _, err := os.Readlink(dir + "/exe"); err != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return env, err
}

// sweep kills all processes that the script left behind. They are an error, unless the script
// has failed already. But while a store is away, an ender tries until the end of its lease.
func (s *script) sweep() {
	left := s.marked("")
	if bad := slices.DeleteFunc(slices.Clone(left), isEnder); len(bad) > 0 && !s.t.Failed() {
		s.t.Errorf("alive at the end of the script:\n%s", describe(bad))
	}
	for deadline := time.Now().Add(patience); len(left) > 0 && time.Now().Before(deadline); left = s.marked("") {
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}

func isEnder(pid int) bool {
	argv, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.HasPrefix(string(argv), "lease-ender")
}
