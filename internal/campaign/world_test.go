package campaign

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/leaderrun/leaderrun/internal/candidate"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
)

// world is a store, a command and an observer in memory, for one campaign in a synctest
// bubble. The func fields replace the default behaviour.
type world struct {
	t     *testing.T
	start time.Time

	acquire func(context.Context, lease.Request) (lease.Lease, error)
	renew   func(context.Context, lease.Lease) (lease.Lease, error)
	release func(context.Context) error
	wait    func(context.Context) error
	listen  func(context.Context) error
	pass    func(context.Context) error
	// command runs the command and returns how it ended. A signal cancels ctx; with
	// stubborn only a kill does.
	command  func(ctx context.Context) candidate.Exit
	stubborn bool
	// left is how long the rest of the tree outlives the command.
	left time.Duration

	mu       sync.Mutex
	log      []string
	holders  []lease.Holder
	end      context.CancelFunc
	killBy   time.Duration
	leased   lease.Lease
	released lease.Result
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, start: time.Now(), end: func() {}}
	w.acquire = func(_ context.Context, r lease.Request) (lease.Lease, error) {
		return lease.Lease{Key: r.Key, Holder: r.Holder, Token: 7, TTL: r.TTL}, nil
	}
	w.renew = func(_ context.Context, l lease.Lease) (lease.Lease, error) { return l, nil }
	w.release = func(context.Context) error { return nil }
	w.wait = func(ctx context.Context) error { return lease.ErrNoWakeups }
	w.listen = func(ctx context.Context) error { return lease.ErrNoWakeups }
	w.pass = func(context.Context) error { return nil }
	w.command = func(ctx context.Context) candidate.Exit { <-ctx.Done(); return candidate.Exit{Signal: 15} }
	return w
}

func (w *world) now() time.Duration { return time.Since(w.start) + time.Hour }

// note records what happened, with the seconds since the start.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf("%.1f ", time.Since(w.start).Seconds())+fmt.Sprintf(format, args...))
}

func (w *world) Acquire(ctx context.Context, r lease.Request) (lease.Lease, error) {
	w.holders = append(w.holders, r.Holder)
	w.note("acquire")
	return w.acquire(ctx, r)
}
func (w *world) Renew(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	w.note("renew")
	return w.renew(ctx, l)
}
func (w *world) Release(ctx context.Context, l lease.Lease, r lease.Result) error {
	w.note("release")
	w.leased, w.released = l, r
	return w.release(ctx)
}
func (w *world) Wait(ctx context.Context, _ string, _ time.Duration) error { return w.wait(ctx) }
func (w *world) Listen(ctx context.Context, _ string) error                { return w.listen(ctx) }
func (w *world) Pass(ctx context.Context, _ string) error                  { w.note("pass"); return w.pass(ctx) }
func (w *world) Close() error                                              { return nil }

func (w *world) Start(_, killBy time.Duration, _ lease.Lease, report func(elect.Event)) {
	w.note("start")
	ctx, end := context.WithCancel(context.Background())
	w.end, w.killBy = end, killBy
	go func() {
		report(elect.Event{Kind: elect.Started})
		exit := w.command(ctx)
		if w.left > 0 {
			report(elect.Event{Kind: elect.CommandEnded, Exit: exit, Left: "sleep (7)"})
			time.Sleep(w.left)
		}
		w.note("gone")
		report(elect.Event{Kind: elect.TreeGone, Exit: exit})
	}()
}
func (w *world) Extend(killBy time.Duration) { w.killBy = killBy }
func (w *world) Signal(n int) {
	w.note("signal %d", n)
	if !w.stubborn && w.end != nil {
		w.end()
	}
}
func (w *world) SignalRest(n int) { w.note("signal %d to the rest", n) }
func (w *world) Kill() {
	w.note("kill")
	w.end()
}
func (w *world) Leave()             { w.note("leave") }
func (w *world) Observe(Transition) {}

func (w *world) settings() Settings {
	n := 0
	return Settings{
		Settings: elect.Settings{
			Timing: elect.NewTiming(30*time.Second, 10*time.Second, 10*time.Second),
			Retry:  5 * time.Second, KillAfter: 10 * time.Second, LostGrace: time.Second, StopSignal: 15,
		},
		Now:       w.now,
		Request:   lease.Request{Key: "k", TTL: 30 * time.Second},
		NewHolder: func() lease.Holder { n++; return lease.Holder(fmt.Sprint("holder ", n)) },
	}
}

// expect checks that exactly this happened.
func (w *world) expect(want ...string) {
	w.t.Helper()
	w.mu.Lock() // leftovers live on and may write
	defer w.mu.Unlock()
	if got := fmt.Sprintf("%q", w.log); got != fmt.Sprintf("%q", want) {
		w.t.Errorf("happened\n%s\nwant\n%q", got, want)
	}
}

// silent is a store that does not answer until the caller gives up.
func silent(ctx context.Context) error {
	<-ctx.Done()
	return &lease.StoreError{Op: "test", Err: ctx.Err()}
}

func lasts(d time.Duration, code int) func(context.Context) candidate.Exit {
	return func(ctx context.Context) candidate.Exit {
		select {
		case <-time.After(d):
			return candidate.Exit{Code: code}
		case <-ctx.Done():
			return candidate.Exit{Signal: 9}
		}
	}
}
