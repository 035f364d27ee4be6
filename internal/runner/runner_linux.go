package runner

import (
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/proc"
)

// killLeftBehind kills what a dead guard held: this process has inherited it.
func (h *held) killLeftBehind() { sweep(h.strangers, h.helpers) }

// sweep kills every child of this process but the strangers and the helpers, and
// theirs as they are inherited.
func sweep(strangers []int, h *helpers) {
	for round := 0; !swept(strangers, h); round++ {
		time.Sleep(time.Millisecond << min(round, 5))
	}
}

// swept is one round; it reports whether nobody is left. That nobody was found is
// not enough.
func swept(strangers []int, h *helpers) bool {
	h.Lock()
	defer h.Unlock()
	spare := func(pid int) bool { return slices.Contains(strangers, pid) || h.has(pid) }
	proc.SignalChildren(syscall.SIGKILL, spare)
	pids, _ := proc.ChildrenOf(os.Getpid())
	for _, pid := range pids {
		if !spare(pid) {
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
	}
	pids, all := proc.ChildrenOf(os.Getpid())
	return all && !slices.ContainsFunc(pids, func(pid int) bool { return !spare(pid) })
}
