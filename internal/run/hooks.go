package run

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/elect"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// hookLimit bounds one hook, and at the end of the run all remaining hooks together: a
// service manager waits for leaderrun then.
const hookLimit = 10 * time.Second

// hintProgram is the hint for a program of a setting that cannot be run.
const hintProgram = "name an executable file, by its full path: the PATH of cron and of services is short"

// Hooks runs the programs of --on-acquire, --on-lost, --on-end and --on-skip. It is exported
// for the simulation, which runs no programs.
type Hooks struct {
	*observe.Hooks
	key      string
	log      *slog.Logger
	run      runHook
	programs map[string]program // by event
	cut      chan struct{}      // closed to kill the running one and to start no other
}

// Status chooses the exit status of a run that ended in a state.
type Status func(elect.State, settings.Config) int

// runHook is RunHook of package runner, or one of a test.
type runHook func(path string, args, env []string, limit time.Duration, cut <-chan struct{}) error

type program struct {
	path string
	argv []string
}

// NewHooks looks up the programs, and returns nil if no hook is set. A missing program is
// only a warning.
func NewHooks(c settings.Config, log *slog.Logger, run runHook, status Status) *Hooks {
	h := &Hooks{key: c.Key, log: log, run: run, programs: map[string]program{}, cut: make(chan struct{})}
	h.find(observe.HookAcquire, c.OnAcquire)
	h.find(observe.HookLost, c.OnLost)
	h.find(observe.HookEnd, c.OnEnd)
	h.find(observe.HookSkip, c.OnSkip)
	if len(h.programs) == 0 {
		return nil
	}
	h.Hooks = observe.NewHooks(h.call, h.noRoom, func(s elect.State) int { return status(s, c) })
	return h
}

func (h *Hooks) find(event string, argv []string) {
	if len(argv) == 0 {
		return
	}
	path, err := Lookup(argv[0])
	if err != nil {
		h.log.Warn(fmt.Sprintf("--on-%s cannot be run: %q: %s", event, settings.Redact(argv[0]), settings.Cause(err)),
			observe.EventHookFailed, observe.HintAttr, hintProgram)
		return
	}
	h.programs[event] = program{path, argv}
}

// call runs the program of an event. Its exit status is only logged.
func (h *Hooks) call(hook observe.Hook) {
	p, ok := h.programs[hook.Event]
	if !ok {
		return
	}
	select {
	case <-h.cut:
		h.leaveOut(hook, "leaderrun ends")
		return
	default:
	}
	env := append(environment(os.Environ(), cmp.Or(hook.Key, h.key), lease.Lease{Holder: hook.Holder, Token: hook.Token}, ""), settings.EventVariable+"="+hook.Event)
	if hook.Outcome != "" {
		env = append(env, settings.OutcomeVariable+"="+string(hook.Outcome))
	}
	if hook.Event == observe.HookEnd {
		env = append(env, settings.ExitVariable+"="+strconv.Itoa(hook.Status),
			settings.StartedVariable+"="+hook.Started.UTC().Format(time.RFC3339), settings.EndedVariable+"="+hook.Ended.UTC().Format(time.RFC3339))
	}
	if err := h.run(p.path, p.argv, env, hookLimit, h.cut); err != nil {
		h.log.Warn(fmt.Sprintf("--on-%s failed: %v", hook.Event, err), observe.EventHookFailed, observe.HintAttr, "run its command by hand, with the arguments and as this user")
	}
}

// noRoom is called with an event for which the queue has no room.
func (h *Hooks) noRoom(hook observe.Hook) {
	if _, ok := h.programs[hook.Event]; ok {
		h.leaveOut(hook, fmt.Sprintf("%d events wait", observe.MaxWaiting))
	}
}

func (h *Hooks) leaveOut(hook observe.Hook, why string) {
	h.log.Warn(fmt.Sprintf("--on-%s was not run, because %s", hook.Event, why), observe.EventHookFailed, observe.HintAttr, "see why the hooks before it took so long")
}

// Finish waits for the remaining hooks, for hookLimit in all. A further order to stop
// kills them.
func (h *Hooks) Finish(signals <-chan campaign.Received) {
	await(h.End(), hookLimit, sync.OnceFunc(func() { close(h.cut) }), signals)
}

// await waits until over is closed. After the limit, or a further order to stop, it cuts short
// what is under way.
func await(over <-chan struct{}, after time.Duration, cut func(), signals <-chan campaign.Received) {
	limit := time.NewTimer(after)
	defer limit.Stop()
	for {
		select {
		case <-over:
			return
		case <-limit.C:
			cut()
		case s := <-signals:
			if s.Order {
				cut()
			}
		}
	}
}
