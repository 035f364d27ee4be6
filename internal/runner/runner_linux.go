package runner

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/proc"
)

// WallClockSet returns a channel that says each time that the wall clock was set or
// the machine has woken from sleep; several times may be one. It
// is nil where the system does not say so, and lasts as long as the process.
func WallClockSet() <-chan struct{} {
	fd, err := proc.WatchWallClock()
	if err != nil {
		return nil
	}
	return canceled(os.NewFile(uintptr(fd), "timerfd"))
}

// timerLen is the length of what a timer is read as (timerfd_create(2)).
const timerLen = 8

// canceled says when a read of the timer is cancelled, until one fails otherwise.
func canceled(timer io.Reader) <-chan struct{} {
	said := make(chan struct{}, 1)
	go func() {
		for b := make([]byte, timerLen); ; {
			if _, err := timer.Read(b); !errors.Is(err, syscall.ECANCELED) {
				return
			}
			select {
			case said <- struct{}{}:
			default: // the one before was not heard yet
			}
		}
	}()
	return said
}

// killLeftBehind kills what a dead guard held: this process has inherited it.
func (h *held) killLeftBehind() {
	defer h.helpers.pauseStarts()()
	defer proc.HurryThread()() // or a tree that forks has more of the processor than who kills it
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

// sweepOnce kills every child of this process but those that the helpers spare,
// and returns those that it met. That nobody was found is not enough to know that nobody
// is left.
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
