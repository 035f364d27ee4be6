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
	all = observers{observe.NewRun(log, c.HasTicks()), line}
	var closers []func() // called in this order: hooks may take hookLimit, and metrics are served meanwhile
	metrics := observe.NewMetrics(c.Key, runner.Now)
	if c.MetricsTextfile != "" || c.MetricsListen != "" {
		all = append(all, metrics)
	}
	if c.MetricsTextfile != "" {
		file := observe.NewTextfile(c.MetricsTextfile, c.Key, metrics, log)
		all, closers = append(all, file), append(closers, file.Close)
	}
	if observe.Managed() {
		service := observe.NewService(c.Rejoin, log)
		all, closers = append(all, service), append(closers, service.Close)
	}
	if hooks := NewHooks(c, log, r.RunHook, status); hooks != nil {
		all, closers = append(all, hooks), append(closers, func() { hooks.Finish(signals) })
	}
	if pings := newPings(c, log, status); pings != nil {
		all, closers = append(all, pings), append(closers, func() { pings.Finish(signals) })
	}
	if c.MetricsListen != "" {
		closers = append(closers, observe.Serve(c.MetricsListen, metrics, log).Close)
	}
	return all, func() {
		for _, f := range closers {
			f()
		}
	}
}
