package guard

import (
	"syscall"

	"github.com/leaderrun/leaderrun/internal/proc"
)

// watchChildren starts a goroutine that writes to a pipe when a child may have died. It does
// not reap, which only the guard's thread does. It has its thread before there is a command.
func (g *guard) watchChildren() error {
	var died, watch [2]int
	for _, p := range []*[2]int{&died, &watch} {
		if err := syscall.Pipe(p[:]); err != nil {
			return err
		}
		syscall.CloseOnExec(p[0])
		syscall.CloseOnExec(p[1])
	}
	g.died, g.watch = died[0], watch[1]
	go func() {
		notify(died[1])
		for readFull(watch[0], make([]byte, 1)) {
			proc.WaitChild()
			notify(died[1])
		}
	}()
	readFull(g.died, make([]byte, 1))
	return nil
}

// notify repeats a write to a pipe until it succeeds: otherwise nobody would ever reap.
func notify(fd int) {
	for !tryWrite(fd, []byte(".")) {
		proc.Sleep(millisecond)
	}
}

// reap handles a notification by watchChildren, and reports whether no child is left.
func (g *guard) reap() (gone bool) {
	readFull(g.died, make([]byte, 1))
	if _, gone := g.collect(atOnce); gone {
		return true
	}
	notify(g.watch)
	return false
}

// collect reaps the dead children, as many as most, and reports how many there were and whether
// no child is left.
func (g *guard) collect(most int) (died int, gone bool) {
	died, gone = proc.Reap(most, func(pid int, status syscall.WaitStatus) {
		if pid != g.pid {
			return
		}
		if status.Stopped() || status.Continued() {
			g.commandStopped, g.changed = status.Stopped(), true
		} else {
			g.ended, g.status = true, status
		}
		g.stopElector(status)
	})
	if gone {
		g.killGroup()
		kind := ReportGone
		if g.expired {
			kind = ReportExpired
		}
		if g.alone = g.hungUp() || !g.report(kind, int64(g.status)); !g.alone {
			// Its own end must not take processor time from the release and the next leader.
			proc.GiveWay()
		}
		return died, true
	}
	if g.ended && !g.reported {
		g.reported = true
		g.report(ReportEnded, int64(g.status))
	}
	return died, false
}
