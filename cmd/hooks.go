package cmd

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/config"
	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/runner"
)

// hookLimit is how long a hook may run.
const hookLimit = 10 * time.Second

// What a hook is told beside the variables of the command.
const (
	eventVariable   = "LEADERRUN_EVENT"
	outcomeVariable = "LEADERRUN_OUTCOME"
)

// hooks are the programs that are run when something happens.
type hooks struct {
	*observe.Hooks
	key      string
	log      *slog.Logger
	runner   *runner.Runner
	programs map[string]program // by event
	cut      chan struct{}      // closed when they have to end
}

type program struct {
	path string
	argv []string
}

// newHooks finds the programs; nil: there are none. One that is missing is no
// reason not to run the command.
func newHooks(c config.Config, log *slog.Logger, r *runner.Runner) *hooks {
	h := &hooks{key: c.Key, log: log, runner: r, programs: map[string]program{}, cut: make(chan struct{})}
	h.find(observe.HookAcquire, c.OnAcquire)
	h.find(observe.HookLost, c.OnLost)
	h.find(observe.HookSkip, c.OnSkip)
	if len(h.programs) == 0 {
		return nil
	}
	h.Hooks = observe.NewHooks(h.call)
	return h
}

func (h *hooks) find(event string, argv []string) {
	if len(argv) == 0 {
		return
	}
	path, err := lookup(argv[0])
	if err != nil {
		h.log.Warn(fmt.Sprintf("--on-%s cannot be run: %q: %s", event, config.Shown(argv[0]), cause(err)),
			observe.EventHookFailed, observe.CureAttr, "name an executable file, by its full path: the PATH of cron and of services is short")
		return
	}
	h.programs[event] = program{path, argv}
}

// call runs the program of an event. How it ends changes nothing.
func (h *hooks) call(hook observe.Hook) {
	p, ok := h.programs[hook.Event]
	if !ok {
		return
	}
	env := append(environment(os.Environ(), h.key, lease.Lease{Holder: hook.Holder, Token: hook.Token}, ""), eventVariable+"="+hook.Event)
	if hook.Outcome != "" {
		env = append(env, outcomeVariable+"="+string(hook.Outcome))
	}
	if err := h.runner.Beside(p.path, p.argv, env, hookLimit, h.cut); err != nil {
		h.log.Warn(fmt.Sprintf("--on-%s failed: %v", hook.Event, err), observe.EventHookFailed, observe.CureAttr, "run it by hand: "+config.Shown(p.path))
	}
}

// finish waits for the hooks that are still to run, unless leaderrun is told to
// end once more.
func (h *hooks) finish(signals <-chan campaign.Received) {
	for ended, cut := h.End(), h.cut; ; {
		select {
		case <-ended:
			return
		case s := <-signals:
			if s.Order && cut != nil {
				close(cut)
				cut = nil
			}
		}
	}
}
