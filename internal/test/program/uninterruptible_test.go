//go:build linux

package program

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/silentfs"
)

// A process in uninterruptible sleep is named after a second, and leaderrun ends when the
// kernel releases it. The process waits for a file system of the test that does not answer.
func TestUninterruptibleIsNamed(t *testing.T) {
	for _, by := range []string{"guard", "elector"} {
		t.Run(by, func(t *testing.T) {
			dir := memory(t)
			silent := silentfs.Mount(t, dir+"/mnt")
			elector := leaderrun(dir, "-k=1s", "--", "sh", "-c", "echo $$ >pid; exec stat mnt/file")
			elector.Stderr = nil
			stderr, err := elector.StderrPipe()
			must.Succeed(t, err)
			must.Succeed(t, elector.Start())
			<-silent.Asked
			if by == "guard" {
				send(t, elector.Process.Pid, syscall.SIGTERM)
			} else {
				send(t, childOf(t, elector.Process.Pid), syscall.SIGKILL)
			}
			pid := must.Read(t, dir+"/pid")
			awaitLine(t, stderr, fmt.Sprintf("process %s (stat): in uninterruptible sleep, D", strings.TrimSpace(pid)))
			silent.End()
			// 137: a guard that does not answer within 0.1 s is killed, too (seen at a load of 50).
			ends := map[string][]int{"guard": {128 + 15, 128 + 9}, "elector": {125}}
			if got := status(t, elector); !slices.Contains(ends[by], got) {
				t.Errorf("status %d, want one of %v", got, ends[by])
			}
		})
	}
}
