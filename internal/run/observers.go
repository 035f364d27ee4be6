package run

import (
	"log/slog"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/runner"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// observers see each transition in turn.
type observers []campaign.Observer

func (all observers) Observe(t campaign.Transition) {
	for _, o := range all {
		o.Observe(t)
	}
}

// newObservers builds the run's observers. finish flushes them, within a time limit.
func newObservers(c settings.Config, log *slog.Logger, line *observe.Line, r *runner.Runner, signals <-chan campaign.Received, status Status) (all observers, finish func()) {
	all = observers{observe.NewRun(log), line}
	var last []func() // closed in this order: quick ones first
	metrics := observe.NewMetrics(c.Key, runner.Now)
	if c.MetricsTextfile != "" || c.MetricsListen != "" {
		all = append(all, metrics)
	}
	if c.MetricsTextfile != "" {
		file := observe.NewTextfile(c.MetricsTextfile, c.Key, metrics, log)
		all, last = append(all, file), append(last, file.Close)
	}
	if observe.Managed() {
		service := observe.NewService(c.Rejoin, log)
		all, last = append(all, service), append(last, service.Close)
	}
	if hooks := NewHooks(c, log, r.RunHook, status); hooks != nil {
		all, last = append(all, hooks), append(last, func() { hooks.Finish(signals) })
	}
	if c.MetricsListen != "" {
		last = append(last, observe.Serve(c.MetricsListen, metrics, log).Close)
	}
	return all, func() {
		for _, f := range last {
			f()
		}
	}
}
