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
func telling(c config.Config, log *slog.Logger, line *observe.Line) (told sinks, finish func()) {
	told, finish = sinks{observe.NewRun(log), line}, func() {}
	if c.MetricsTextfile != "" {
		metrics := observe.NewMetrics(c.Key, runner.Now)
		file := observe.NewTextfile(c.MetricsTextfile, c.Key, metrics, log)
		told, finish = append(told, metrics, file), file.Close
	}
	return told, finish
}
