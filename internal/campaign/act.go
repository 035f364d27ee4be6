package campaign

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// run is one Run in progress. Only its goroutine touches the fields; requests run in
// their own goroutines and their answers come back as events.
type run struct {
	set      Settings
	store    lease.Store
	process  Process
	observer Observer

	// ctx is the context of the requests and of beside; it ends with the run. caller is
	// Run's own: a wake-up that is passed on at the end outlives ctx.
	caller, ctx context.Context

	state   elect.State
	request lease.Request
	sight   lease.Sight

	// reported carries the reports of other goroutines, until over is closed.
	reported chan report
	over     chan struct{}
	// requests numbers the requests to the store; cancel cancels the last one.
	requests int
	cancel   context.CancelFunc
	// unlisten stops listening, uncheck stops the check of this host.
	unlisten, uncheck context.CancelFunc
	// ending is what the run waits for at its end: a wake-up that is being passed on, a
	// check that is being killed.
	ending sync.WaitGroup
}

// report is an event and the number of the request that it answers, 0 if none.
type report struct {
	request int
	event   elect.Event
}

// errLateStart is the reason if stop-by passed while observers handled the grant, for
// example while the lease file was created on a slow disk.
var errLateStart = errors.New("it took too long to prepare the start, for example to create the lease file")

func (r *run) act(a elect.Action) {
	//exhaustive:enforce
	switch a.Kind {
	case elect.Acquire:
		r.acquire(a)
	case elect.Check:
		r.check(a)
	case elect.Wait:
		// The store returns by itself at the timeout. The limit is for one that hangs.
		r.ask(a.Timeout+r.set.Attempt, func(ctx context.Context) elect.Event {
			return waited(r.store.Wait(ctx, r.request.Key, a.Timeout))
		})
	case elect.Renew:
		r.ask(a.Timeout, func(ctx context.Context) elect.Event {
			l, err := r.store.Renew(ctx, a.Lease)
			return renewed(l, err)
		})
	case elect.Listen:
		r.unlisten = r.beside(func(ctx context.Context) elect.Event { return listened(ctx, r.store, r.request.Key) })
	case elect.Release:
		r.unlisten()
		r.uncheck()
		r.ask(a.Timeout, func(ctx context.Context) elect.Event {
			return released(r.store.Release(ctx, a.Lease, a.Result))
		})
	case elect.Pass:
		r.pass()
	case elect.Start:
		reportEvent := func(e elect.Event) { r.report(report{event: e}) }
		if r.set.Now() >= a.StartBy {
			go reportEvent(elect.Event{Kind: elect.StartFailed, Err: errLateStart})
			return
		}
		r.process.Start(a.StartBy, a.KillBy, a.Lease, reportEvent)
	case elect.Extend:
		r.process.Extend(a.KillBy)
	case elect.Signal:
		r.process.Signal(a.Signal)
	case elect.SignalRest:
		r.process.SignalRest(a.Signal)
	case elect.Kill:
		r.process.Kill()
	case elect.Leave:
		r.process.Leave()
	}
}

func (r *run) acquire(a elect.Action) {
	if a.Fresh {
		r.request.Holder = r.set.NewHolder()
	}
	r.setTick(a.Tick)
	r.request.Waits = a.Waits
	r.request.Seen = r.sight.At(r.set.Now())
	request := r.request
	r.ask(a.Timeout, func(ctx context.Context) elect.Event { return r.acquired(ctx, request) })
}

func (r *run) check(a elect.Action) {
	r.ending.Add(1)
	check := func(ctx context.Context) elect.Event {
		defer r.ending.Done()
		if err := r.set.Check(ctx, a.Timeout); err != nil {
			return elect.Event{Kind: elect.MayNotLead, Err: err}
		}
		return elect.Event{Kind: elect.MayLead}
	}
	if a.Beside {
		r.uncheck = r.beside(check)
	} else {
		r.ask(a.Timeout+time.Second, check) // the check keeps its own limit, and ends soon after it
	}
}

// setTick sets the tick of the request. Until the store has answered, it is the tick by
// this host's wall clock, which the store compares with its own clock.
func (r *run) setTick(tick int64) {
	q := &r.request
	q.Tick, q.TickFrom, q.TickUntil = tick, 0, 0
	if r.set.TickAt == nil {
		return
	}
	if tick != 0 {
		q.Period = r.set.TickAt(tick).Period
		return
	}
	t := r.set.TickAt(r.set.WallNow().UnixMilli())
	q.Tick, q.TickFrom, q.TickUntil, q.Period = t.At, t.From, t.Until, t.Period
}

// tickAt returns the tick of a candidate whose first answer came at this time of the
// store.
func (r *run) tickAt(now int64) int64 {
	if r.set.TickAt == nil || now == 0 {
		return now
	}
	return r.set.TickAt(now).At
}

// ask sends a request to the store. There is at most one at a time: a new request cancels
// the previous one, whose answer is then ignored.
func (r *run) ask(timeout time.Duration, request func(context.Context) elect.Event) {
	r.cancel()
	ctx, cancel := context.WithTimeout(r.ctx, timeout)
	r.cancel = cancel
	r.requests++
	number := r.requests
	go func() {
		defer cancel()
		sent := r.set.Now() // before it is sent: the store may act at any time after this
		e := request(ctx)
		e.Sent = sent
		r.report(report{request: number, event: e})
	}()
}

// beside runs work concurrently with the requests, and reports its result unless it was
// cancelled.
func (r *run) beside(work func(context.Context) elect.Event) (cancel context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.ctx)
	go func() {
		defer cancel()
		if e := work(ctx); ctx.Err() == nil {
			r.report(report{event: e})
		}
	}()
	return cancel
}

// report passes a report to the loop, until the run is over.
func (r *run) report(t report) {
	select {
	case r.reported <- t:
	case <-r.over:
	}
}

// pass hands the wake-up on. Standbys also ask again without one, so a candidate that ends
// does not wait long for this.
func (r *run) pass() {
	ctx, cancel := context.WithTimeout(r.caller, min(r.set.Attempt, 500*time.Millisecond))
	r.ending.Go(func() {
		defer cancel()
		_ = r.store.Pass(ctx, r.request.Key)
	})
}

func (r *run) acquired(ctx context.Context, request lease.Request) elect.Event {
	l, err := r.store.Acquire(ctx, request)
	if err == nil {
		return elect.Event{Kind: elect.Granted, Lease: l}
	}
	denial, ok := lease.ConditionOf(err)
	if !ok {
		return elect.Event{Kind: elect.NoAnswer, Err: err}
	}
	denial.Tick = cmp.Or(r.tickAt(denial.Tick), request.Tick)
	return elect.Event{Kind: elect.Denied, Denial: denial}
}

func waited(err error) elect.Event {
	switch {
	case err == nil:
		return elect.Event{Kind: elect.Woke}
	case errors.Is(err, lease.ErrNoWakeups):
		return elect.Event{Kind: elect.CannotWake}
	}
	return elect.Event{Kind: elect.NoAnswer, Err: err}
}

// listenLimit is how long a holder listens on one connection. A proxy or NAT in between may
// have dropped the connection without notice.
const listenLimit = time.Minute

func listened(ctx context.Context, store lease.Store, key string) elect.Event {
	old, err := listenOnce(ctx, store, key)
	for old {
		old, err = listenOnce(ctx, store, key)
	}
	switch {
	case err == nil:
		return elect.Event{Kind: elect.Pinged}
	case errors.Is(err, lease.ErrNoWakeups):
		return elect.Event{Kind: elect.CannotWake}
	}
	return elect.Event{Kind: elect.Broken, Err: err}
}

// listenOnce listens on one connection. old reports that the connection has reached the
// limit.
func listenOnce(ctx context.Context, store lease.Store, key string) (old bool, err error) {
	this, end := context.WithCancel(ctx)
	defer end()
	limit := time.AfterFunc(listenLimit, end)
	err = store.Listen(this, key)
	return !limit.Stop() && err != nil && ctx.Err() == nil, err
}

func renewed(l lease.Lease, err error) elect.Event {
	switch {
	case err == nil:
		return elect.Event{Kind: elect.Renewed, Lease: l}
	case errors.Is(err, lease.ErrLost):
		return elect.Event{Kind: elect.LeaseLost, Err: err}
	}
	return elect.Event{Kind: elect.NoAnswer, Err: err}
}

func released(err error) elect.Event {
	if err == nil || errors.Is(err, lease.ErrLost) {
		return elect.Event{Kind: elect.Released, Err: err}
	}
	return elect.Event{Kind: elect.ReleaseFailed, Err: err}
}
