// Package silentfs mounts a file system that does not answer: a process that asks it waits in
// uninterruptible sleep, and not even SIGKILL ends it. It needs FUSE and root. Only tests may
// import it.
package silentfs

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// FileSystem is a mounted file system that answers only the mount request.
type FileSystem struct {
	Asked chan struct{} // closed when somebody asks for a file
	End   func()        // unmounts it; processes that wait get an error
}

// Mount makes the directory and mounts a file system there, with the protocol of linux/fuse.h.
// It is unmounted at the test's end. Without the right to mount, the test is skipped.
func Mount(t *testing.T, at string) FileSystem {
	t.Helper()
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
	f := FileSystem{Asked: make(chan struct{})}
	ended := false
	f.End = func() {
		if !ended {
			ended = true
			_ = syscall.Unmount(at, syscall.MNT_FORCE|syscall.MNT_DETACH) // it fails what is unanswered
			_ = syscall.Close(fd)
		}
	}
	t.Cleanup(f.End)
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
					close(f.Asked)
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
