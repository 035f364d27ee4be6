//go:build linux

package program

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// A process in uninterruptible sleep is named after a second, and leaderrun ends when the
// kernel releases it. The process waits for a file system of the test that does not answer.
func TestUninterruptibleIsNamed(t *testing.T) {
	for _, by := range []string{"guard", "elector"} {
		t.Run(by, func(t *testing.T) {
			dir := memory(t)
			silent := silentFileSystem(t, dir+"/mnt")
			elector := leaderrun(dir, "-k=1s", "--", "sh", "-c", "echo $$ >pid; exec stat mnt/file")
			elector.Stderr = nil
			stderr, err := elector.StderrPipe()
			must.Succeed(t, err)
			must.Succeed(t, elector.Start())
			<-silent.asked
			if by == "guard" {
				send(t, elector.Process.Pid, syscall.SIGTERM)
			} else {
				send(t, childOf(t, elector.Process.Pid), syscall.SIGKILL)
			}
			pid := must.Read(t, dir+"/pid")
			awaitLine(t, stderr, fmt.Sprintf("process %s (stat): in uninterruptible sleep, D", strings.TrimSpace(pid)))
			silent.end()
			// 137: a guard that does not answer within 0.1 s is killed, too (seen at a load of 50).
			ends := map[string][]int{"guard": {128 + 15, 128 + 9}, "elector": {125}}
			if got := status(t, elector); !slices.Contains(ends[by], got) {
				t.Errorf("status %d, want one of %v", got, ends[by])
			}
		})
	}
}

// fileSystem is a mounted file system that answers only the mount request.
type fileSystem struct {
	asked chan struct{} // closed when somebody asks for a file
	end   func()
}

// silentFileSystem mounts one with the protocol of linux/fuse.h. A process that asks it
// waits and ignores all signals.
func silentFileSystem(t *testing.T, at string) fileSystem {
	must.Succeed(t, os.Mkdir(at, 0o755))
	fd, err := syscall.Open("/dev/fuse", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no FUSE here: %v", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)
	if err := syscall.Mount("silent", at, "fuse", syscall.MS_NOSUID|syscall.MS_NODEV, options); err != nil {
		_ = syscall.Close(fd)
		t.Skipf("no FUSE here: %v", err)
	}
	f := fileSystem{asked: make(chan struct{})}
	ended := false
	f.end = func() {
		if !ended {
			ended = true
			_ = syscall.Unmount(at, syscall.MNT_FORCE|syscall.MNT_DETACH) // it fails what is unanswered
			_ = syscall.Close(fd)
		}
	}
	t.Cleanup(f.end)
	go func() {
		const initialize, headerLen, answerLen = 26, 16, 16 + 64
		request := make([]byte, 1<<17)
		for asked := false; ; {
			if _, err := syscall.Read(fd, request); err != nil {
				return
			}
			if operation := binary.NativeEndian.Uint32(request[4:]); operation != initialize {
				if !asked {
					asked = true
					close(f.asked)
				}
				continue
			}
			answer := make([]byte, answerLen)
			binary.NativeEndian.PutUint32(answer, answerLen)
			copy(answer[8:], request[8:headerLen]) // the request's number
			binary.NativeEndian.PutUint32(answer[16:], 7)
			binary.NativeEndian.PutUint32(answer[20:], 31)
			binary.NativeEndian.PutUint32(answer[36:], 1<<16) // max_write
			_, _ = syscall.Write(fd, answer)
		}
	}()
	return f
}
