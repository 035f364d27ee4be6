//go:build linux

package program

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	bin := t.TempDir() // /dev/shm may be mounted without setuid
	for dir := bin; dir != os.TempDir(); dir = filepath.Dir(dir) {
		must.Succeed(t, os.Chmod(dir, 0o755))
	}
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
			want := fmt.Sprintf("process %d (chains): another user's, EPERM", pid)
			for lines := bufio.NewScanner(stderr); ; {
				if !lines.Scan() {
					t.Fatalf("nothing says %q", want)
				}
				if strings.Contains(lines.Text(), want) {
					break
				}
			}
			send(t, pid, syscall.SIGKILL)
			status(t, elector)
		})
	}
}
