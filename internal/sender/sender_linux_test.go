//go:build amd64 || arm64

package sender

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// The kernel's signal comes from a timer (setitimer): it has the same si_code as a terminal's.
func TestSenders(t *testing.T) {
	caught := make(chan os.Signal, 16)
	signal.Notify(caught, syscall.SIGUSR1, syscall.SIGALRM)
	defer signal.Stop(caught)
	Note(syscall.SIGUSR1, syscall.SIGALRM)
	Note(syscall.SIGUSR1, syscall.SIGALRM) // twice does no harm
	next := func(want os.Signal) {
		t.Helper()
		select {
		case got := <-caught:
			if got != want {
				t.Fatalf("caught %v, want %v", got, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%v has not arrived within 20 s", want)
		}
	}
	for range 3 {
		must.Succeed(t, syscall.Kill(os.Getpid(), syscall.SIGUSR1))
		next(syscall.SIGUSR1)
		if kernel, process, pid := Of(syscall.SIGUSR1); kernel || !process || pid != os.Getpid() {
			t.Errorf("a process's signal: kernel %t, process %t, %d", kernel, process, pid)
		}
		soon := [4]int64{3: 1} // a microsecond from now, and not again
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETITIMER, 0, uintptr(unsafe.Pointer(&soon)), 0); errno != 0 {
			t.Fatal(errno)
		}
		next(syscall.SIGALRM)
		if kernel, process, _ := Of(syscall.SIGALRM); !kernel || process {
			t.Errorf("the kernel's signal: kernel %t, process %t", kernel, process)
		}
		if kernel, process, _ := Of(syscall.SIGALRM); kernel || process {
			t.Errorf("reported again: kernel %t, process %t", kernel, process)
		}
	}
}
