package guard

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// The kernel cannot drop the guard's program from memory, as it does when memory is short: to
// kill, the guard needs no disk.
func TestStaysInMemory(t *testing.T) {
	root(t)
	if err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_ONFAULT); err != nil {
		t.Skipf("no memory may be locked here: %v", err)
	}
	must.Succeed(t, unix.Munlockall())
	name := filepath.Join(t.TempDir(), "guard") // of its own, since the kernel spares pages that another process uses
	g := start(t, func(cmd *exec.Cmd) {
		self, err := os.ReadFile("/proc/self/exe")
		must.Succeed(t, err)
		must.Succeed(t, os.WriteFile(name, self, 0o700)) //nolint:gosec // it is a program
		cmd.Path = name
	})
	g.order(t, OrderStart, far(), shell("exec sleep 60"))
	g.next(t, ReportStarted)
	guard := g.cmd.Process.Pid
	await(t, "its memory is locked", func() bool {
		status := must.Read(t, fmt.Sprintf("/proc/%d/status", guard))
		return !strings.Contains(status, "VmLck:\t       0 kB")
	})
	begin, end, before := program(t, guard)
	pidfd, err := unix.PidfdOpen(guard, 0)
	must.Succeed(t, err)
	defer unix.Close(pidfd)
	code := [2]uintptr{begin, end - begin} // a struct iovec
	_, _, errno := unix.Syscall6(unix.SYS_PROCESS_MADVISE, uintptr(pidfd), uintptr(unsafe.Pointer(&code)), 1, unix.MADV_PAGEOUT, 0, 0)
	if errno != 0 && errno != unix.EINVAL { // EINVAL: it is locked
		t.Skipf("the kernel drops no memory of another process: %v", errno)
	}
	if _, _, after := program(t, guard); before == 0 || after < before {
		t.Errorf("of %d KiB of the program %d are left (%v)", before, after, errno)
	}
	g.order(t, OrderKill, 0, nil)
	g.next(t, ReportGone)
}

// program returns where a process has its program's code, and how many KiB of it are in memory.
func program(t *testing.T, pid int) (begin, end uintptr, resident int) {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	must.Succeed(t, err)
	before, code, _ := strings.Cut(string(maps), " r-xp ") // the only mapping of the file that may be executed is the first
	_, err = fmt.Sscanf(before[strings.LastIndexByte(before, '\n')+1:], "%x-%x", &begin, &end)
	must.Succeed(t, err)
	_, rss, _ := strings.Cut(code, "\nRss:")
	_, err = fmt.Sscan(rss, &resident)
	must.Succeed(t, err)
	return begin, end, resident
}
