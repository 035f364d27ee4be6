package runner

import (
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/proc"
)

// killLeftBehind kills what a dead guard held: this process has inherited it.
func (h *held) killLeftBehind() { sweep(h.strangers) }

// sweep kills every child of this process but the strangers, and theirs as they
// are inherited.
func sweep(strangers []int) {
	stranger := func(pid int) bool { return slices.Contains(strangers, pid) }
	for round := 0; ; round++ {
		proc.SignalChildren(syscall.SIGKILL, stranger)
		none := proc.Reap(func(int, syscall.WaitStatus) {})
		if none || !slices.ContainsFunc(proc.ChildrenOf(os.Getpid()), func(pid int) bool { return !stranger(pid) }) {
			return
		}
		time.Sleep(time.Millisecond << min(round, 5))
	}
}
