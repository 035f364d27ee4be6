//go:build linux

package main

import (
	"context"
	"slices"
	"syscall"
	"time"

	"github.com/leaderrun/leaderrun/internal/test/faultnet"
	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/timed"
)

// injector causes a fault and returns what ends it. Both fail as check does.
type injector func(context.Context, *worker, fault) (undo func())

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
	return func(_ context.Context, w *worker, _ fault) func() {
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
		return func() {
			toElector(elector.undoes)
			toGuard(guard.undoes)
		}
	}
}

func onStandby(h hit) injector {
	return func(_ context.Context, w *worker, _ fault) func() {
		c := w.children[(w.leader()+1)%candidates]
		c.signal(h.does)
		return func() {
			if h.undoes != 0 {
				c.signal(h.undoes)
			}
		}
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
	return func(_ context.Context, w *worker, f fault) func() {
		all := w.concerned(f)
		set := func(m faultnet.Mode) {
			for _, p := range all {
				must.Check(p.Set(m))
			}
		}
		set(m)
		return func() { set(faultnet.Pass) }
	}
}

// setDark lets hosts go dark, or come back.
func setDark(hosts []*host, dark bool) {
	for _, h := range hosts {
		must.Check(h.SetDark(dark))
	}
}

func goDark(_ context.Context, w *worker, f fault) func() {
	all := w.hosts
	if !f.everyone {
		who := w.leader()
		all = all[who : who+1]
	}
	setDark(all, true)
	return func() { setDark(all, false) }
}

// darkAndEmpty makes the store's host go dark, and come back without data.
func darkAndEmpty(ctx context.Context, w *worker, _ fault) func() {
	setDark(w.hosts, true)
	return func() {
		w.restartWith(ctx, blank, 0)
		setDark(w.hosts, false)
	}
}

func delay(_ context.Context, w *worker, f fault) func() {
	all := w.concerned(f)
	set := func(d time.Duration) {
		for _, p := range all {
			p.Delay(d)
		}
	}
	set(f.amount)
	return func() { set(0) }
}

func killStore(_ context.Context, w *worker, _ fault) func() {
	undo := w.mayBeReplaced(w.server.start)
	w.server.kill()
	return undo
}

func stopStore(_ context.Context, w *worker, _ fault) func() {
	undo := w.mayBeReplaced(w.server.cont)
	w.server.freeze()
	return undo
}

// mayBeReplaced returns undo for a fault of a server that a replica may replace meanwhile, or soon
// after its return. The replica may lack the newest writes.
func (w *worker) mayBeReplaced(undo func()) func() {
	if !slices.Contains(w.world.has, replicas) {
		return undo
	}
	during := w.losing()
	return func() {
		during(func() {
			undo()
			time.Sleep(failover) // one that has begun goes on
		})
	}
}

// clocked is a backend whose wall clock can be set to a distance from this host's.
type clocked interface {
	setClock(ahead time.Duration)
}

// stepClock steps the wall clock of the store's host, and steps it back at the end.
func stepClock(direction time.Duration) injector {
	return func(_ context.Context, w *worker, f fault) func() {
		server := w.server.(clocked)
		var was time.Duration
		set := func(ahead time.Duration) {
			w.forgetting()(func() { server.setClock(ahead) })
			if back := was - ahead; back > 0 { // counters that were lost earlier may be ahead of this clock
				w.mu.Lock()
				w.back = timed.Step{At: clock(), By: back}
				w.lost, w.losses = append(w.lost, w.losses...), nil
				w.mu.Unlock()
			}
			was = ahead
		}
		set(direction * f.amount)
		return func() { set(0) }
	}
}

// lockAndStep holds up all requests that write, first those of a candidate that comes when the
// store's clock has stepped ahead.
func lockAndStep(ctx context.Context, w *worker, f fault) func() {
	over := make(chan error)
	go func() { over <- w.server.(*server).lock(f.lasts) }()
	pause(ctx, f.lasts/3)
	back := stepClock(+1)(ctx, w, f)
	must.Check(w.comes(newcomer{wait: w.ttl}))
	return func() { must.Check(<-over); back() }
}

// forgetting returns a function for what makes the store forget: from now until that is done,
// the store may have lost ticks and tokens. After a loss new tokens begin at the server's time:
// if its clock was ahead before, old tokens may be larger.
func (w *worker) forgetting() func(do func()) {
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
	return func(do func()) {
		do()
		w.mu.Lock()
		defer w.mu.Unlock()
		span := timed.Span{From: since, To: clock()}
		w.forgot = append(w.forgot, span)
		if ahead {
			w.lost = append(w.lost, span)
		}
	}
}

// losing is forgetting for what makes the store lose its data.
func (w *worker) losing() func(do func()) {
	during := w.forgetting()
	return func(do func()) {
		during(do)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.losses = append(w.losses, w.forgot[len(w.forgot)-1])
	}
}

// restorable is a backend whose data can be taken back.
type restorable interface {
	// save copies the data under that name.
	save(as string)
	// restartWith kills the server and restarts it after that time with a copy of its data.
	restartWith(ctx context.Context, copied string, after time.Duration)
}

func (w *worker) restartWith(ctx context.Context, copied string, after time.Duration) {
	w.losing()(func() { w.server.(restorable).restartWith(ctx, copied, after) })
}

// rollBack restarts the server with the data that it had when the fault began.
func rollBack(ctx context.Context, w *worker, f fault) func() {
	w.server.(restorable).save(snapshot)
	return func() { w.restartWith(ctx, snapshot, f.amount) }
}

func emptyStore(ctx context.Context, w *worker, f fault) func() {
	w.restartWith(ctx, blank, f.amount)
	return func() {}
}

// fillStore takes every free connection of the server, and every one that becomes free.
func fillStore(ctx context.Context, w *worker, _ fault) func() {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan error)
	go func() { over <- must.Try(func() { w.server.(*server).fill(ctx) }) }()
	return func() { cancel(); must.Check(<-over) }
}

// useUpQuota makes the store refuse data.
func useUpQuota(_ context.Context, w *worker, _ fault) func() {
	server := w.server.(interface{ setFull(full bool) })
	server.setFull(true)
	return func() { server.setFull(false) }
}

// onBehind injects a fault, named how, into the store behind this one.
func onBehind(how string) injector {
	return func(_ context.Context, w *worker, _ fault) func() {
		return w.server.(interface {
			without(how string) (undo func())
		}).without(how)
	}
}

// partition cuts the server that leads off from the others, but not from its clients.
func partition(_ context.Context, w *worker, _ fault) func() {
	return w.server.(interface {
		partition() (undo func())
	}).partition()
}

// lag cuts the replicas off and at the end kills their server, so that a replica takes over
// with old data. The killed server comes back after a while: after it was replaced if
// replaced is set, otherwise perhaps before.
func lag(replaced bool) injector {
	return func(ctx context.Context, w *worker, f fault) func() {
		set := w.server.(*sentinels)
		set.set.CutOff()
		return func() {
			w.losing()(func() {
				set.kill()
				if replaced {
					set.replaced(ctx)
				}
				pause(ctx, f.amount)
				set.start()
			})
		}
	}
}
