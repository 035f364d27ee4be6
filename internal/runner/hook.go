package runner

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/guard"
)

// hookPatience is how long RunHook waits for the end of a tree that is being killed.
const hookPatience = time.Second

// RunHook runs a program beside the command, under a guard of its own, with its output to this
// process's standard error, and returns when it has ended. When cut is closed, or after limit,
// its tree is killed. What it leaves when it ends by itself lives on. An error is one of the
// system, or says how the program ended.
func (r *Runner) RunHook(path string, args, env []string, limit time.Duration, cut <-chan struct{}) error {
	reports := make(chan Report, 4) // there are no more
	h, err := r.startHook(func(report Report) { reports <- report })
	if err != nil {
		return err
	}
	killBy := Now() + limit
	h.order(guard.OrderStart, int64(killBy), &guard.Command{StartBy: int64(killBy), Path: path, Args: args, Env: env, Merged: true})
	var killed error = TooLong(limit)
	late := time.NewTimer(limit + hookPatience)
	defer late.Stop()
	for {
		select {
		case report := <-reports:
			isOver := Now() >= killBy
			switch {
			case report.Kind == Ended && !isOver:
				h.leave()
				<-h.over
				return failure(report.Status)
			case report.Kind != Gone && report.Kind != Failed:
			case isOver:
				return killed
			default:
				return cmp.Or(report.Err, failure(report.Status))
			}
		case <-cut:
			killed, killBy, cut = errors.New("killed, because leaderrun ends"), Now(), nil
			h.order(guard.OrderKill, noValue, nil)
			late.Reset(hookPatience)
		case <-late.C: // the exec hangs, or a process is in uninterruptible sleep: the guard goes on
			return killed
		}
	}
}

// startHook starts a guard for a hook, in a session of its own: no terminal stops the hook, though
// stty tostop may be set.
func (r *Runner) startHook(report func(Report)) (*guarded, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	h, err := r.startGuard([]uintptr{null.Fd(), uintptr(syscall.Stderr), null.Fd()}, &syscall.SysProcAttr{Setsid: true})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrGuard, err)
	}
	h.hook, h.report = true, report
	r.guards.reapLeft() // what earlier hooks left and has ended: a check runs again and again
	<-r.reserved
	return h, nil
}

// failure returns an error that says how a program ended, nil if it succeeded.
func failure(status syscall.WaitStatus) error {
	switch {
	case status.Signaled():
		return errors.New("it died of a signal: " + status.Signal().String())
	case status.ExitStatus() != 0:
		return ExitStatus(status.ExitStatus())
	}
	return nil
}

// TooLong is the error of a program that was killed after this time, its limit.
type TooLong time.Duration

func (l TooLong) Error() string {
	return "killed after " + time.Duration(l).Round(time.Millisecond).String()
}

// ExitStatus is the error of a program that ended by itself, but with another status than 0.
type ExitStatus int

func (s ExitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }
