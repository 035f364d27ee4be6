//go:build linux

package main

import (
	"context"
	"slices"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/faultnet"
	"github.com/leaderrun/leaderrun/internal/test/timed"
)

// injector causes a fault and returns what ends it.
type injector func(context.Context, *worker, fault) (undo func() error, err error)

// hit is a signal to a process, and the signal that undoes it.
type hit struct{ does, undoes syscall.Signal }

var (
	nothing = hit{}
	term    = hit{does: syscall.SIGTERM}
	kill    = hit{does: syscall.SIGKILL}
	stop    = hit{does: syscall.SIGSTOP, undoes: syscall.SIGCONT}
)

// leader returns the candidate with the newest tree. If a newcomer leads, it returns a
// candidate that stands by.
func (w *worker) leader() int {
	t, _ := newest(w.marks)
	return t.who % candidates
}

// onLeader signals elector and guard of the leader. It stops both before it kills, since a
// stopped process does not notice the other's death.
func onLeader(elector, guard hit) injector {
	return func(_ context.Context, w *worker, _ fault) (func() error, error) {
		c := w.children[w.leader()]
		held := c.guard()
		toElector := func(sig syscall.Signal) {
			if sig != 0 {
				c.signal(sig)
			}
		}
		toGuard := func(sig syscall.Signal) {
			if sig != 0 {
				signalGuard(held, sig)
			}
		}
		if guard == stop {
			toGuard(guard.does)
			toElector(elector.does)
		} else {
			toElector(elector.does)
			toGuard(guard.does)
		}
		return func() error {
			toElector(elector.undoes)
			toGuard(guard.undoes)
			return nil
		}, nil
	}
}

func onStandby(h hit) injector {
	return func(_ context.Context, w *worker, _ fault) (func() error, error) {
		c := w.children[(w.leader()+1)%candidates]
		c.signal(h.does)
		return func() error {
			if h.undoes != 0 {
				c.signal(h.undoes)
			}
			return nil
		}, nil
	}
}

// concerned returns the proxies that a fault of the network concerns.
func (w *worker) concerned(f fault) []*faultnet.Proxy {
	if f.everyone {
		return slices.Concat(w.proxies[:]...)
	}
	return w.proxies[w.leader()]
}

func onNet(m faultnet.Mode) injector {
	return func(_ context.Context, w *worker, f fault) (func() error, error) {
		all := w.concerned(f)
		set := func(m faultnet.Mode) error {
			for _, p := range all {
				if err := p.Set(m); err != nil {
					return err
				}
			}
			return nil
		}
		return func() error { return set(faultnet.Pass) }, set(m)
	}
}

// setDark lets hosts go dark, or come back.
func setDark(hosts []*host, dark bool) error {
	for _, h := range hosts {
		if err := h.SetDark(dark); err != nil {
			return err
		}
	}
	return nil
}

func goDark(_ context.Context, w *worker, f fault) (func() error, error) {
	all := w.hosts
	if !f.everyone {
		who := w.leader()
		all = all[who : who+1]
	}
	return func() error { return setDark(all, false) }, setDark(all, true)
}

// darkAndEmpty makes the store's host go dark, and come back without data.
func darkAndEmpty(ctx context.Context, w *worker, _ fault) (func() error, error) {
	return func() error {
		if err := w.restartWith(ctx, blank, 0); err != nil {
			return err
		}
		return setDark(w.hosts, false)
	}, setDark(w.hosts, true)
}

func delay(_ context.Context, w *worker, f fault) (func() error, error) {
	all := w.concerned(f)
	set := func(d time.Duration) {
		for _, p := range all {
			p.Delay(d)
		}
	}
	set(f.amount)
	return func() error { set(0); return nil }, nil
}

func killStore(_ context.Context, w *worker, _ fault) (func() error, error) {
	return w.mayBeReplaced(w.server.start), w.server.kill()
}

func stopStore(_ context.Context, w *worker, _ fault) (func() error, error) {
	return w.mayBeReplaced(w.server.cont), w.server.freeze()
}

// mayBeReplaced returns undo for a fault of a server that a replica may replace meanwhile. The
// replica may lack the newest writes.
func (w *worker) mayBeReplaced(undo func() error) func() error {
	if !slices.Contains(w.world.has, replicas) {
		return undo
	}
	during := w.losing()
	return func() error { return during(undo) }
}

// clocked is a backend whose wall clock can be set to a distance from this host's.
type clocked interface {
	setClock(ahead time.Duration) error
}

// stepClock steps the wall clock of the store's host, and steps it back at the end.
func stepClock(direction time.Duration) injector {
	return func(_ context.Context, w *worker, f fault) (func() error, error) {
		server := w.server.(clocked)
		var was time.Duration
		set := func(ahead time.Duration) error {
			err := w.forgetting()(func() error { return server.setClock(ahead) })
			if back := was - ahead; back > 0 { // counters that were lost earlier may be ahead of this clock
				w.mu.Lock()
				w.back = timed.Step{At: clock(), By: back}
				w.lost, w.losses = append(w.lost, w.losses...), nil
				w.mu.Unlock()
			}
			was = ahead
			return err
		}
		return func() error { return set(0) }, set(direction * f.amount)
	}
}

// forgetting returns a function for what makes the store forget: from now until that is done,
// the store may have lost ticks and tokens. After a loss new tokens begin at the server's time:
// if its clock was ahead before, old tokens may be larger.
func (w *worker) forgetting() func(do func() error) error {
	since := clock()
	t, _ := newest(w.marks)
	largest := t.token
	w.mu.Lock()
	for _, r := range w.jobs {
		for _, c := range r.calls {
			largest = max(largest, c.Token)
		}
	}
	w.mu.Unlock()
	ahead := largest > time.Now().UnixMilli()
	return func(do func() error) error {
		err := do()
		w.mu.Lock()
		defer w.mu.Unlock()
		span := timed.Span{From: since, To: clock()}
		w.forgot = append(w.forgot, span)
		if ahead {
			w.lost = append(w.lost, span)
		}
		return err
	}
}

// losing is forgetting for what makes the store lose its data.
func (w *worker) losing() func(do func() error) error {
	during := w.forgetting()
	return func(do func() error) error {
		err := during(do)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.losses = append(w.losses, w.forgot[len(w.forgot)-1])
		return err
	}
}

// restorable is a backend whose data can be taken back.
type restorable interface {
	// save makes a snapshot.
	save() error
	// restartWith kills the server and restarts it after that time with a copy of its data.
	restartWith(ctx context.Context, copied string, after time.Duration) error
}

func (w *worker) restartWith(ctx context.Context, copied string, after time.Duration) error {
	return w.losing()(func() error { return w.server.(restorable).restartWith(ctx, copied, after) })
}

// rollBack restarts the server with the data that it had when the fault began.
func rollBack(ctx context.Context, w *worker, f fault) (func() error, error) {
	return func() error { return w.restartWith(ctx, snapshot, f.amount) }, w.server.(restorable).save()
}

func emptyStore(ctx context.Context, w *worker, f fault) (func() error, error) {
	return func() error { return nil }, w.restartWith(ctx, blank, f.amount)
}

// fillStore takes every free connection of the server, and every one that becomes free.
func fillStore(ctx context.Context, w *worker, _ fault) (func() error, error) {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		w.server.(*server).fill(ctx)
	}()
	return func() error { cancel(); <-over; return nil }, nil
}

// useUpQuota makes the store refuse data.
func useUpQuota(_ context.Context, w *worker, _ fault) (func() error, error) {
	server := w.server.(interface{ setFull(full bool) error })
	return func() error { return server.setFull(false) }, server.setFull(true)
}

// onBehind injects a fault, named how, into the store behind this one.
func onBehind(how string) injector {
	return func(_ context.Context, w *worker, _ fault) (func() error, error) {
		return w.server.(interface {
			without(how string) (undo func() error, err error)
		}).without(how)
	}
}

// partition cuts the server that leads off from the others, but not from its clients.
func partition(_ context.Context, w *worker, _ fault) (func() error, error) {
	return w.server.(interface {
		partition() (undo func() error, err error)
	}).partition()
}

// lag cuts the replicas off and at the end kills their server, so that a replica takes over
// with old data. The killed server comes back after a while: after it was replaced if
// replaced is set, otherwise perhaps before.
func lag(replaced bool) injector {
	return func(ctx context.Context, w *worker, f fault) (func() error, error) {
		set := w.server.(*sentinels)
		return func() error {
			return w.losing()(func() error {
				if err := set.kill(); err != nil {
					return err
				}
				if replaced {
					set.replaced(ctx)
				}
				pause(ctx, f.amount)
				return set.start()
			})
		}, set.cutOff()
	}
}
