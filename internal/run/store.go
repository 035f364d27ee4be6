package run

import (
	"log/slog"

	"github.com/leaderrun/leaderrun/internal/observe"
	"github.com/leaderrun/leaderrun/internal/settings"
	"github.com/leaderrun/leaderrun/internal/store"
	"github.com/leaderrun/leaderrun/internal/store/location"
)

// OpenExisting makes the store for a verb: it creates nothing that is not there.
func OpenExisting(c settings.Config, log *slog.Logger) (location.Store, error) {
	return open(c, log, true)
}

// open makes the store that the settings name. Nothing is asked yet.
func open(c settings.Config, log *slog.Logger, mustExist bool) (location.Store, error) {
	return store.Open(c.Store, location.Options{
		Prefix: c.Prefix, MustExist: mustExist,
		Warn: func(problem, hint string) { log.Warn(problem, observe.EventAdvice, observe.HintAttr, hint) },
	})
}
