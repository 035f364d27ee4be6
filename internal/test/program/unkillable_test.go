//go:build linux

package program

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// A process that cannot be killed is named after a second, with the reason, by the process
// that has to kill it. leaderrun ends when that process has ended.
func TestUnkillableIsNamed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a program setuid root")
	}
	bin := shared(t) // /dev/shm may be mounted without setuid
	build := "go build -o " + bin + "/chains ./internal/tools/chains && chmod 4755 " + bin + "/chains && cp \"$(command -v leaderrun)\" " + bin
	if out, err := exec.Command("sh", "-c", build).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, by := range []string{"guard", "elector"} {
		t.Run(by, func(t *testing.T) {
			dir := memory(t)
			must.Succeed(t, os.Chown(dir, somebody, somebody))
			elector := exec.Command(bin+"/leaderrun", "--store=file:"+dir+"/store", "--key=k", "-k=100ms", "--",
				"sh", "-c", bin+"/chains root 1 >ready & echo $! >pid; wait")
			elector.Dir = dir
			elector.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: somebody, Gid: somebody}}
			stderr, err := elector.StderrPipe()
			must.Succeed(t, err)
			must.Succeed(t, elector.Start())
			eventually(t, "the command runs", func() bool { b, _ := os.ReadFile(dir + "/ready"); return len(b) > 0 })
			b := must.Read(t, dir+"/pid")
			pid := 0
			_, _ = fmt.Sscan(b, &pid)
			t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
			if by == "guard" {
				send(t, elector.Process.Pid, syscall.SIGTERM)
			} else {
				send(t, childOf(t, elector.Process.Pid), syscall.SIGKILL)
			}
			awaitLine(t, stderr, fmt.Sprintf("process %d (chains): another user's, EPERM", pid))
			send(t, pid, syscall.SIGKILL)
			status(t, elector)
		})
	}
}

// awaitLine reads lines until one has this text.
func awaitLine(t *testing.T, from io.Reader, text string) {
	t.Helper()
	for lines := bufio.NewScanner(from); lines.Scan(); {
		if strings.Contains(lines.Text(), text) {
			return
		}
	}
	t.Fatalf("nothing says %q", text)
}
