package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/proc"
)

// self is the path of this program, which works even if its file was replaced since the start.
const self = "/proc/self/exe"

// Limits returns an error if this process's limits do not allow a run: ErrFewProcesses or ErrFewFiles,
// with ErrGuard. Go's runtime ends a program that cannot have a thread, perhaps once it has the lease.
// What others of this user need is not known.
func Limits() error {
	const processes = 6 // RLIMIT_NPROC, which does not hold for root
	for _, least := range []struct {
		resource int
		n        uint64
		err      error
	}{
		{processes, 40, ErrFewProcesses},
		{syscall.RLIMIT_NOFILE, 32, ErrFewFiles},
	} {
		var limit syscall.Rlimit
		root := least.resource == processes && os.Geteuid() == 0
		if err := syscall.Getrlimit(least.resource, &limit); err == nil && limit.Cur < least.n && !root {
			return fmt.Errorf("%w: %w", ErrGuard, least.err)
		}
	}
	return nil
}

// WallClockSet returns a channel that receives when the wall clock was set or the machine
// woke from sleep; several times may give one value. It is nil if the system cannot tell. It
// is never closed.
func WallClockSet() <-chan struct{} {
	fd, err := proc.WatchWallClock()
	if err != nil {
		return nil
	}
	return canceled(os.NewFile(uintptr(fd), "timerfd"))
}

// timerLen is the length of a read from a timer (timerfd_create(2)).
const timerLen = 8

// canceled sends a value each time a read of the timer is cancelled, and ends when a read
// fails for another reason.
func canceled(timer io.Reader) <-chan struct{} {
	said := make(chan struct{}, 1)
	go func() {
		for b := make([]byte, timerLen); ; {
			if _, err := timer.Read(b); !errors.Is(err, syscall.ECANCELED) {
				return
			}
			select {
			case said <- struct{}{}:
			default: // the last value has not been received yet
			}
		}
	}()
	return said
}

// killLeftBehind kills the tree of a dead guard, which this process has inherited.
func (h *guarded) killLeftBehind() {
	defer proc.HurryThread()() // otherwise a tree that forks gets more of the processor than this thread
	var left []int
	round := func() (progress, none bool) {
		left, progress, none = sweepOnce(h.children, h.pid, h.guard.own)
		return progress, none
	}
	report := sync.OnceFunc(func() { h.reportUnkillable(left) })
	for !proc.Sweep(int64(time.Second), round) {
		report()
	}
}

// sweepOnce kills every child of this process but those that the guards spare, and returns
// those that it met. none reports that no such child is left: it met none, and its list was
// complete.
func sweepOnce(children *proc.Children, group int, g *guards) (met []int, progress, none bool) {
	g.Lock()
	defer g.Unlock()
	round := children.Kill(group, g.spares)
	if !round.Reap {
		return round.Met, round.Came, false
	}
	for _, pid := range round.Met {
		if reaped, _ := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); reaped == pid {
			progress = true
		}
	}
	return round.Met, progress, round.All && len(round.Met) == 0
}
