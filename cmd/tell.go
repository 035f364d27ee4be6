package cmd

import (
	"log/slog"

	"github.com/leaderrun/leaderrun/internal/campaign"
	"github.com/leaderrun/leaderrun/internal/config"
	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/runner"
)

// sinks are told in turn.
type sinks []campaign.Sink

func (s sinks) Observe(t campaign.Transition) {
	for _, sink := range s {
		sink.Observe(t)
	}
}

// telling builds all who are told of a run. What they have begun is finished, or
// given up after a while, by finish.
func telling(c config.Config, log *slog.Logger, line *observe.Line, r *runner.Runner, signals <-chan campaign.Received) (told sinks, finish func()) {
	told = sinks{observe.NewRun(log), line}
	var last []func() // to be finished, the quick ones first
	metrics := observe.NewMetrics(c.Key, runner.Now)
	if c.MetricsTextfile != "" || c.MetricsListen != "" {
		told = append(told, metrics)
	}
	if c.MetricsTextfile != "" {
		file := observe.NewTextfile(c.MetricsTextfile, c.Key, metrics, log)
		told, last = append(told, file), append(last, file.Close)
	}
	if observe.Managed() {
		service := observe.NewService(c.Rejoin, log)
		told, last = append(told, service), append(last, service.Close)
	}
	if hooks := newHooks(c, log, r); hooks != nil {
		told, last = append(told, hooks), append(last, func() { hooks.finish(signals) })
	}
	if c.MetricsListen != "" {
		last = append(last, observe.Serve(c.MetricsListen, metrics, log).Close)
	}
	return told, func() {
		for _, f := range last {
			f()
		}
	}
}
