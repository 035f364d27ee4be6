package runner

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/proc"
)

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
func (h *held) killLeftBehind() {
	defer h.helpers.pauseStarts()()
	defer proc.HurryThread()() // otherwise a tree that forks gets more of the processor than this thread
	var left []int
	round := func() (died int, none bool) {
		left, died, none = sweepOnce(h.children, h.pid, h.helpers)
		return died, none
	}
	if proc.Sweep(int64(time.Second), round) {
		return
	}
	h.reportUnkillable(left)
	for !proc.Sweep(int64(time.Second), round) {
	}
}

// sweepOnce kills all children of this process, except those that helpers spares, and returns
// those that it found. If it found none, there may still be some: see none.
func sweepOnce(children *proc.Children, group int, h *helpers) (met []int, died int, none bool) {
	h.Lock()
	defer h.Unlock()
	met, all := children.Kill(group, h.spares)
	for _, pid := range met {
		if reaped, _ := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); reaped == pid {
			died++
		}
	}
	return met, died, all && len(met) == 0
}
